# The places of stax.h that learn of a new op. Run it as tests/add_an_op.sh does:
#   sed -f examples/add_an_op/sinc.sed stax.h > build/add_an_op/stax.h

# 1. The interface (>>ops): a prototype, and the macro that notes the caller's line.
/^STAXDEF stax_value stax_erfc /a\
STAXDEF stax_value stax_sinc       (stax_value x);   /* sin(pi x) / (pi x), 1 at 0                               */
/^#define stax_erfc(x) /a\
#define stax_sinc(x)        (stax_sinc)(STAX_AT(x))

# 2. The row (>>optable). `float`: the result is a float, integers come as f32. `basis`: it has a text of its own.
/^    X(ERFC, .*ELEMENTWISE/a\
    X(SINC,            "sinc",            ELEMENTWISE, 1, 1, 1, "",                                                  float,           basis,         "sin(pi x) / (pi x)")      \\

# 3. What it means (>>scalarops): one text for the interpreter, every vector width and the GPU.
#    pi x would lose the fraction of a large x, so whole periods go first: x - n is exact.
/^\/\* ---- bool: masks/i\
STAXI_FN(sx_f32, sinc_f32, (sx_f32 x),\
    sx_f32 n = sx_(round_f32)(x);\
    sx_f32 s = sx_(sin_f32)(3.14159274f * (x - n));\
    sx_f32 half = 0.5f * n;\
    s = sx_sel32(sx_ne32(half, sx_(round_f32)(half)), 0.0f - s, s); /* n is odd */\
    return sx_sel32(sx_eq32(x, sx_k32(0.0f)), sx_k32(1.0f), s / (3.14159274f * x));\
)\
STAXI_FN(sx_f64, sinc_f64, (sx_f64 x),\
    sx_f64 n = sx_(round_f64)(x);\
    sx_f64 s = sx_(sin_f64)(3.1415926535897931 * (x - n));\
    sx_f64 half = 0.5 * n;\
    s = sx_sel64(sx_ne64(half, sx_(round_f64)(half)), 0.0 - s, s);\
    return sx_sel64(sx_eq64(x, sx_k64(0.0)), sx_k64(1.0), s / (3.1415926535897931 * x));\
)

# 4. The table of scalar texts (also there): V, V says that both are vector texts.
/^    X(d, D, ERFC, /a\
    X(d, D, SINC, sinc, UNARY, V, V, NULL)                                                        \\

# 5. The builder (>>build).
/^STAXI_BUILD_UNARY(erf, ERF) /a\
STAXI_BUILD_UNARY(sinc, SINC)

# 6. Its derivative (>>differentiate), in g, the cotangent of the result, r, the result, and x.
#    SINGULAR: the factor may be infinite or NaN; SELECTS: it may choose a 0.
/^    STAXI_D_F(SILU, /a\
    STAXI_D_F(SINC,      STAXI_D_SINGULAR | STAXI_D_SELECTS, "(mul g (where (eq x 0) 0 (div (sub (cos (mul x 3.1415926535897931)) r) x)))"),

# 7. Its cost in cycles a vector (>>stages), without which it counts as an addition; its operations,
#    of them divisions, as predictions count them.
/^    X(ERFC, [0-9]/i\
    X(SINC, 30, 47, 1)   \\
