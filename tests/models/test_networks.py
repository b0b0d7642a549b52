import numpy as np
import pytest
import torch
from torch import nn

from karenina.models.fast import Adam, UpConv, in_chunks
from karenina.models.networks import NETWORKS, build, resolve

SHAPES = {
    "conv64": (1, 64, 64),
    "conv64_released": (3, 64, 64),
    "conv32": (3, 32, 32),
    "resnet": (3, 64, 64),
    "fc": (2, 5, 7),
    "mlp": (1, 16, 16),
    "mlp256": (1, 16, 16),
    "linear": (3, 4, 6),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("latents", [1, 7])
def test_shapes(name: str, latents: int) -> None:
    shape = SHAPES[name]
    network = build(name, shape, latents).eval()
    with torch.no_grad():
        mean, logvar = network.encode(torch.rand(2, *shape))
        images = network.decode(mean)
        units = network.first_activations(mean)
    assert mean.shape == logvar.shape == (2, latents)
    assert images.shape == (2, *shape)
    assert units.shape[0] == 2


@pytest.mark.parametrize("name", NETWORKS)
def test_trace_shows_what_the_first_decoder_layer_gives(name: str) -> None:
    """Its affine map and then its own non-linearity: tanh up the "fc" network of Higgins et al. (2017), else ReLU, and
    nothing where the layer only feeds residual blocks or pixels."""
    own = {"fc": np.tanh, "resnet": np.array, "linear": np.array}.get(name, lambda x: np.maximum(x, 0))
    network = build(name, SHAPES[name], 5).eval()
    z = torch.randn(4, 5)
    weight, bias = (parameter.detach().numpy() for parameter in network.decoder[0].parameters())
    with torch.no_grad():
        units = network.first_activations(z).numpy()
    np.testing.assert_allclose(np.sort(units), np.sort(own(z.numpy() @ weight.T + bias)), atol=1e-5)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_conv64_has_the_layers_of_the_table() -> None:
    """Locatello et al. (2019), Table 2: weights and biases added up by hand."""
    network = build("conv64", (1, 64, 64), 10)
    conv = (16 * 32 + 32) + (16 * 32 * 32 + 32) + (16 * 32 * 64 + 64) + (16 * 64 * 64 + 64)
    dense = (4 * 4 * 64 * 256 + 256) + (256 * 20 + 20)
    up = (10 * 256 + 256) + (256 * 1024 + 1024)
    up += (16 * 64 * 64 + 64) + (16 * 64 * 32 + 32) + (16 * 32 * 32 + 32) + (16 * 32 + 1)
    assert count(network.features) == conv
    assert count(network.head) == dense
    assert count(network.decoder) == up
    released = build("conv64_released", (1, 64, 64), 10)
    kernels = [layer.kernel_size for layer in released.features if isinstance(layer, nn.Conv2d)]
    assert kernels == [(4, 4), (4, 4), (2, 2), (2, 2)]


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_up_convolution_is_that_of_torch(channels: int) -> None:
    torch.manual_seed(0)
    ours = UpConv(5, channels).double()
    plain = nn.ConvTranspose2d(5, channels, 4, 2, 1).double()
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(3, 5, 6, 4, dtype=torch.float64)
    xs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    outputs = [layer(value) for layer, value in zip((ours, plain), xs)]
    torch.testing.assert_close(*outputs)
    push = torch.randn_like(outputs[0])
    for output in outputs:
        output.backward(push)
    torch.testing.assert_close(xs[0].grad, xs[1].grad)
    torch.testing.assert_close(ours.weight.grad, plain.weight.grad)
    torch.testing.assert_close(ours.bias.grad, plain.bias.grad)


def test_up_convolution_passes_gradcheck() -> None:
    layer = UpConv(3, 1).double()
    x = torch.randn(2, 3, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.9)])
def test_adam_is_that_of_torch(betas: tuple[float, float]) -> None:
    torch.manual_seed(0)
    ours, plain = (nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(12, 2)) for _ in range(2))
    ours = ours.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plain.load_state_dict(ours.state_dict())
    idle = nn.Parameter(torch.ones(3))
    optimisers = (
        Adam([*ours.parameters(), idle], 0.01, betas),
        torch.optim.Adam(plain.parameters(), 0.01, betas),
    )
    for _ in range(20):
        x = torch.randn(5, 1, 3, 3)
        for network, optimiser in zip((ours, plain), optimisers):
            optimiser.zero_grad()
            network(x).square().sum().backward()
            optimiser.step()
    for mine, theirs in zip(ours.parameters(), plain.parameters()):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert torch.equal(idle, torch.ones(3))
    optimisers[0].zero_grad()
    optimisers[0].step()  # nothing to do
    assert optimisers[0].updates == 20


def test_chunks_change_nothing() -> None:
    layer = nn.Linear(4, 2)
    x = torch.randn(70, 4)
    torch.testing.assert_close(in_chunks(layer, x, 32), layer(x))


def test_auto_goes_by_size() -> None:
    assert resolve("auto", (1, 64, 64)) == "conv64"
    assert resolve("auto", (3, 32, 32)) == "conv32"
    assert resolve("auto", (1, 16, 16)) == "mlp"
    assert resolve("auto", (2, 64, 64)) == "mlp"


@pytest.mark.parametrize("shape", [(1, 32, 32), (2, 64, 64), (1, 64, 32)])
def test_images_that_do_not_fit(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="'conv64' takes images of 1 or 3 channels and 64x64 pixels"):
        build("conv64", shape, 10)


def test_unknown_network() -> None:
    with pytest.raises(ValueError, match=r"no network 'vgg'; known: auto, conv64"):
        resolve("vgg", (1, 64, 64))
