/* What surrounds a training step, for digits_mlp.c, digits_cnn.c and charlm.c; include it after
   stax.h. A step is one program: the loss, its gradients, AdamW, and the new weights written back
   into states. Here are parameters and their memory, AdamW as ops of the graph, the loop over steps
   and the options of the command line. All chance comes from the seed, so the losses are the same
   bits on every machine, with any number of threads, compiled or interpreted. */
#ifndef STAX_EXAMPLES_TRAINING_H
#define STAX_EXAMPLES_TRAINING_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PARAMETERS = 40, MOST_TENSORS = 3 * MOST_PARAMETERS + 8 };

typedef struct training {
    const char *data,
        *losses; /* --data=FILE is read; --losses=FILE, if given, written: the curve */
    int seed, steps, batch, threads, interpret; /* --seed=1 ... */
    const char *own_name; /* an option of the example's own, or NULL         */
    int own;
    stax_context *ctx;
    stax_graph *graph; /* that is being built                                                     */
    bool is_step;      /* it trains: parameters are states, not inputs                            */
    stax_value count;  /* f32[]: steps before this one                                            */
    int n_keys;
    stax_value parameters[MOST_PARAMETERS];
    int n_parameters;
    struct {
        char name[24];
        stax_tensor tensor;
        void *ours;
    } memory[MOST_TENSORS]; /* of all inputs and states; graphs find it by their names */
    int n_memory;
    uint64_t chance; /* the state of training_uniform                                           */
} training;

/* Reads options over the defaults that stand in t, and opens the context. */
static inline bool training_open(training *t, int argc, char **argv) {
    const struct {
        const char *name;
        int *number;
        const char **text;
    } options[] = {{"--seed", &t->seed, NULL},           {"--steps", &t->steps, NULL},
                   {"--batch", &t->batch, NULL},         {"--threads", &t->threads, NULL},
                   {"--data", NULL, &t->data},           {"--losses", NULL, &t->losses},
                   {"--interpret", &t->interpret, NULL}, {t->own_name, &t->own, NULL}};
    enum { OPTIONS = sizeof options / sizeof options[0] };
    int n = OPTIONS - (t->own_name == NULL);
    for (int i = 1; i < argc; i++) {
        size_t length = strcspn(argv[i], "=");
        const char *value = argv[i] + length + (argv[i][length] == '=');
        int k = 0;
        while (k < n && (strlen(options[k].name) != length ||
                         strncmp(argv[i], options[k].name, length) != 0))
            k++;
        if (k == n) {
            printf("%s: there are", argv[i]);
            for (k = 0; k < n; k++) printf(" %s=", options[k].name);
            printf("\n");
            return false;
        }
        if (options[k].text) *options[k].text = value;
        if (options[k].number) *options[k].number = atoi(value);
    }
    stax_options o = stax_options_default();
    o.n_threads = t->threads;
    t->chance = (uint64_t)t->seed;
    t->ctx = t->steps > 0 && t->batch > 0 ? stax_open(&o) : NULL;
    if (!t->ctx) printf("--steps and --batch must be more than 0\n");
    return t->ctx != NULL;
}

static inline void training_close(training *t) {
    for (int k = 0; k < t->n_memory; k++) free(t->memory[k].ours);
    stax_graph_free(t->graph);
    stax_close(t->ctx);
}

/* A number in [0, 1): splitmix64, by Sebastiano Vigna. */
static inline double training_uniform(training *t) {
    uint64_t z = t->chance += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* The memory of that input or state: `data`, or new and zeroed where that is NULL. */
static inline void *training_memory(training *t, const char *name, stax_dtype dtype,
                                    stax_shape shape, void *data) {
    size_t bytes = stax_dtype_bytes(dtype);
    int k = 0;
    while (k < t->n_memory && strcmp(t->memory[k].name, name) != 0) k++;
    if (k < t->n_memory) return t->memory[k].tensor.data;
    for (int d = 0; d < shape.rank; d++) bytes *= (size_t)shape.dims[d];
    void *ours = data || k == MOST_TENSORS ? NULL : calloc(bytes, 1);
    if (!data && !ours) {
        printf("no memory for %s\n", name);
        exit(1);
    }
    snprintf(t->memory[k].name, sizeof t->memory[k].name, "%s", name);
    t->memory[k].tensor = stax_tensor_of(dtype, shape, data ? data : ours);
    t->memory[k].ours = ours;
    t->n_memory++;
    return t->memory[k].tensor.data;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static inline stax_graph *training_graph(training *t, bool is_step) {
    stax_graph_free(t->graph);
    t->graph = stax_graph_new(t->ctx);
    t->is_step = is_step;
    t->n_parameters = t->n_keys = 0;
    t->count = stax_state(t->graph, "count", STAX_F32, stax_shape0());
    return t->graph;
}

/* An input that stands in `data` at every call. */
static inline stax_value training_input(training *t, const char *name, stax_dtype dtype,
                                        stax_shape shape, void *data) {
    training_memory(t, name, dtype, shape, data);
    return stax_input(t->graph, name, dtype, shape);
}

/* A tensor of weights, at first evenly spread over middle - spread .. middle + spread. */
static inline stax_value training_parameter(training *t, const char *name, stax_shape shape,
                                            double middle, double spread) {
    int known = t->n_memory;
    float *w = (float *)training_memory(t, name, STAX_F32, shape, NULL);
    int64_t n = known < t->n_memory;
    for (int d = 0; d < shape.rank; d++) n *= shape.dims[d];
    for (int64_t i = 0; i < n; i++) w[i] = (float)(middle + spread * (2 * training_uniform(t) - 1));
    stax_value p = t->is_step ? stax_state(t->graph, name, STAX_F32, shape)
                              : stax_input(t->graph, name, STAX_F32, shape);
    if (t->n_parameters < MOST_PARAMETERS) t->parameters[t->n_parameters++] = p;
    return p;
}

/* A key for random numbers: another one for each call, step and seed. */
static inline stax_value training_key(training *t) {
    char name[24];
    snprintf(name, sizeof name, "key%d", t->n_keys);
    stax_value key = training_input(t, name, STAX_U64, stax_shape0(), NULL);
    *(uint64_t *)training_memory(t, name, STAX_U64, stax_shape0(), NULL) =
        ((uint64_t)t->seed << 32) + ((uint64_t)t->n_keys++ << 56);
    return stax_add(key, stax_cast(t->count, STAX_U64));
}

/* A step of AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) for all
   parameters, and the loss as the output. The rate falls to 0 along half a cosine. With `steps` an
   input, runs of any length are one program. */
static inline void training_adamw(training *t, stax_value loss, double rate, double decay) {
    stax_graph *g = t->graph;
    stax_value grads[MOST_PARAMETERS], one = stax_const(g, 1);
    stax_output(g, "loss", loss);
    if (stax_grad(loss, t->parameters, t->n_parameters, grads) != STAX_OK) return;
    stax_value steps = training_input(t, "steps", STAX_F32, stax_shape0(), NULL);
    *(float *)training_memory(t, "steps", STAX_F32, stax_shape0(), NULL) = (float)t->steps;
    stax_value angle = stax_mul(stax_div(t->count, steps), stax_const(g, 3.14159265358979));
    stax_value now = stax_mul(stax_add(stax_cos(angle), one), stax_const(g, rate / 2));
    stax_value n = stax_add(t->count, one); /* means of n values are too small by 1 - beta^n */
    stax_value mean_bias = stax_sub(one, stax_pow(stax_const(g, 0.9), n));
    stax_value square_bias = stax_sub(one, stax_pow(stax_const(g, 0.999), n));
    for (int k = 0; k < t->n_parameters; k++) {
        char name[2][24];
        stax_value p = t->parameters[k], slope = grads[k];
        snprintf(name[0], sizeof name[0], "mean%d", k);
        snprintf(name[1], sizeof name[1], "square%d", k);
        stax_value mean = stax_state(g, name[0], STAX_F32, stax_value_shape(p));
        stax_value square = stax_state(g, name[1], STAX_F32, stax_value_shape(p));
        stax_value next = stax_lerp(slope, mean, stax_const(g, 0.9));
        stax_value is_tiny =
            stax_lt(stax_abs(next), stax_const(g, 1e-30)); /* subnormals are slow */
        stax_assign(mean, stax_where(is_tiny, stax_const(g, 0), next));
        stax_assign(square, stax_lerp(stax_square(slope), square, stax_const(g, 0.999)));
        stax_value size = stax_sqrt(stax_div(square, square_bias));
        stax_value move = stax_div(stax_div(mean, mean_bias), stax_add(size, stax_const(g, 1e-8)));
        move = stax_add(move, stax_mul(p, stax_const(g, decay)));
        stax_assign(p, stax_sub(p, stax_mul(move, now)));
    }
    stax_assign(t->count, n);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Compiles the graph; tensors: the memory of its inputs and states. NULL: it has said why. */
static inline stax_program *training_compile(training *t, stax_tensor *tensors) {
    stax_compile_options o;
    stax_input_info info;
    memset(&o, 0, sizeof o);
    o.interpret = t->interpret != 0;
    stax_program *p = stax_compile(t->graph, &o);
    for (int k = 0; stax_graph_input(t->graph, k, &info); k++) {
        int m = 0;
        training_memory(t, info.name, info.dtype, info.shape, NULL);
        while (strcmp(t->memory[m].name, info.name) != 0) m++;
        tensors[k] = t->memory[m].tensor;
    }
    if (!p || (!t->interpret && stax_program_status(p) != STAX_OK))
        printf("%s%s\n", p ? "interpreted, slowly: " : "", stax_error(t->ctx));
    return p;
}

/* Runs the graph once; its output is written to `out`. */
static inline bool training_once(training *t, stax_tensor out) {
    static stax_tensor in[MOST_TENSORS];
    stax_program *p = training_compile(t, in);
    bool ok = p && stax_run(p, in, &out) == STAX_OK;
    if (p && !ok) printf("%s\n", stax_error(t->ctx));
    stax_program_free(p);
    return ok;
}

/* All steps. The graph has an input "rows" i64[batch]: which of n rows of data it sees. They come
   in an order that is drawn anew when all had their turn. */
static inline bool training_run(training *t, int n) {
    static stax_tensor in[MOST_TENSORS];
    float loss = 0;
    stax_tensor out = stax_tensor_of(STAX_F32, stax_shape0(), &loss);
    stax_program *p = training_compile(t, in);
    int64_t *rows = (int64_t *)training_memory(t, "rows", STAX_I64, stax_shape1(t->batch), NULL);
    int *order = (int *)malloc((size_t)n * sizeof *order), next = n, shown = 0;
    FILE *curve = t->losses ? fopen(t->losses, "w") : NULL;
    bool ok = p && order && n >= t->batch && (curve || !t->losses);
    for (int i = 0; ok && i < n; i++) order[i] = i;
    clock_t start = clock();
    double sum = 0;
    for (int s = 1; ok && s <= t->steps; s++) {
        for (int i = n - 1; next + t->batch > n && i > 0; i--) { /* Fisher and Yates */
            int j = (int)(training_uniform(t) * (i + 1)), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        if (next + t->batch > n) next = 0;
        for (int i = 0; i < t->batch; i++) rows[i] = order[next++];
        ok = stax_run(p, in, &out) == STAX_OK;
        sum += (double)loss;
        if (curve) fprintf(curve, "%d %.9g\n", s, (double)loss); /* 9 digits: all bits */
        if (ok && s * 10 / t->steps != (s - 1) * 10 / t->steps) {
            printf("step %5d: loss %.4f, %.0f us of processor time a step\n", s, sum / (s - shown),
                   (double)(clock() - start) * 1e6 / CLOCKS_PER_SEC / s);
            fflush(stdout);
            sum = 0;
            shown = s;
        }
    }
    if (!ok) printf("training failed: %s\n", stax_error(t->ctx));
    if (curve) fclose(curve);
    free(order);
    stax_program_free(p);
    return ok;
}

#endif
