"""PyTorch's times for the table of tests/cuda_device.c, in the same form; eager and compiled."""
import sys

try:
    import torch
except ImportError:
    print("skip torch: it is not installed")
    sys.exit(0)
if not torch.cuda.is_available():
    print("skip torch: it sees no device")
    sys.exit(0)

ROWS, COLUMNS = 16384, 8192
ONCE = ROWS * COLUMNS * 4 / 1e9
x = torch.rand(ROWS, COLUMNS, device="cuda") * 2 - 1
w = torch.rand(COLUMNS, device="cuda")
CASES = [
    ("row sum", lambda: x.sum(1), ONCE),
    ("column sum", lambda: x.sum(0), ONCE),
    ("full sum", lambda: x.sum(), ONCE),
    ("(relu(x+w)*2).sum(1)", lambda: (torch.relu(x + w) * 2).sum(1), ONCE),
    ("exp(x).sum(1), x.amax(1)", lambda: (torch.exp(x).sum(1), x.amax(1)), ONCE),
    ("softmax(1)", lambda: torch.softmax(x, 1), 2 * ONCE),
    ("layer_norm", lambda: torch.nn.functional.layer_norm(x, (COLUMNS,), w), 2 * ONCE),
    ("x + 1", lambda: x + 1, 2 * ONCE),
    ("exp(x)", lambda: torch.exp(x), 2 * ONCE),
    ("transpose + 1", lambda: x.t().contiguous() + 1, 2 * ONCE),
    ("cumsum(1)", lambda: x.cumsum(1), 2 * ONCE),
    ("relu(x)", lambda: torch.relu(x), 2 * ONCE),
    ("row amax", lambda: x.amax(1), ONCE),
    ("var(1)", lambda: x.var(1, correction=0), ONCE),
    ("argmax(1)", lambda: x.argmax(1), ONCE),
    ("x / x.sum(1)", lambda: x / x.sum(1, keepdim=True), 2 * ONCE),
    ("gelu(layer_norm) * 0.5",
     lambda: torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (COLUMNS,), w)) * 0.5, 2 * ONCE),
]


def product(dtype, m, n, k, finish, sets):
    """Calls on pairs of operands in turn, and their operations in 1e12."""
    each = [[torch.rand(*shape, device="cuda").mul_(2).sub_(1).to(dtype) for shape in ((m, k), (k, n), (n,))]
            for _ in range(sets)]
    turn = [0]

    def call(a, b, c):
        return torch.nn.functional.gelu(a @ b + c) if finish else a @ b

    def wrapped(wrap):
        f = wrap(call)

        def run():
            turn[0] += 1
            return f(*each[turn[0] % sets])

        return run

    return wrapped, 2.0 * m * n * k / 1e12


small = torch.rand(1024, device="cuda")


def rounds():
    y = small
    for _ in range(20):
        y = torch.sin(y).cumsum(0) * 0.5
    return y


CASES.append(("20 x sin, cumsum, *0.5", rounds, 0))
step_x = (torch.rand(4096, 1024, device="cuda") * 2 - 1).requires_grad_()
step_w = (torch.rand(1024, 1024, device="cuda") * 2 - 1).requires_grad_()


def step():
    return torch.nn.functional.gelu(step_x @ step_w).sum()


PRODUCTS = [
    ("f32 matmul 4096", torch.float32, 4096, 4096, 4096, False, 1),
    ("f32 matmul 4096 bias gelu", torch.float32, 4096, 4096, 4096, True, 1),
    ("bf16 matmul 4096", torch.bfloat16, 4096, 4096, 4096, False, 1),
    ("bf16 matmul 4096 bias gelu", torch.bfloat16, 4096, 4096, 4096, True, 1),
    ("f16 matmul 8192 bias gelu", torch.float16, 8192, 8192, 8192, True, 1),
    ("bf16 16 x 4096 x 4096", torch.bfloat16, 16, 4096, 4096, False, 8),
]
torch.backends.cuda.matmul.allow_tf32 = False


def median_ms(f):
    for _ in range(3):
        f()
    times = []
    for _ in range(30):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[15]


for label, wrap in (("eager", lambda f: f), ("compile", torch.compile)):
    if label == "compile" and "--compile" not in sys.argv:
        continue
    for name, f, gigabytes in CASES:
        try:
            ms = median_ms(wrap(f))
        except Exception as e:  # a compiler that is not there
            print(f"torch {label} {name}: {type(e).__name__}")
            continue
        print(f"torch {label:7s} {name:26s} {ms:8.4f} ms {gigabytes / ms * 1e3:7.0f} GB/s")
    forward = wrap(step)
    ms = median_ms(lambda: torch.autograd.grad(forward(), (step_x, step_w)))
    print(f"torch {label:7s} {'gelu(xW).sum, both grads':26s} {ms:8.4f} ms {3 * 2 * 4.294967296e-3 / ms * 1e3:7.1f} TFLOP/s")
    for name, *sizes in PRODUCTS:
        wrapped, work = product(*sizes)
        ms = median_ms(wrapped(wrap))
        print(f"torch {label:7s} {name:26s} {ms:8.4f} ms {work / ms * 1e3:7.1f} TFLOP/s")
