"use strict";
// Runs the decoders that karenina.pages.decoder exports. Images are Float32Arrays (height, width, channels).

function halfToFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function unpackHalves(text) {
  const bytes = atob(text), values = new Float32Array(bytes.length / 2);
  for (let i = 0; i < values.length; i++) {
    values[i] = halfToFloat(bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8));
  }
  return values;
}

// A function from codes (an array of numbers) to an image.
function makeDecoder(exported) {
  const weights = unpackHalves(exported.weights);
  let at = 0;
  const take = (count) => weights.subarray(at, (at += count));
  const steps = [];
  let height = 1, width = 1;
  for (const layer of exported.layers) {
    const { inputs, outputs } = layer;
    if (layer.kind === "dense") {
      const w = take(inputs * outputs), b = take(outputs);
      steps.push((x) => dense(x, w, b));
    } else if (layer.kind === "up") {
      const w = take(inputs * 16 * outputs), b = take(outputs), h = height, v = width;
      steps.push((x) => upConvolve(x, h, v, w, b, inputs, outputs));
      height *= 2;
      width *= 2;
    } else if (layer.kind === "image") {
      height = layer.height;
      width = layer.width;
    } else {
      const apply = {
        relu: (v) => (v > 0 ? v : 0),
        tanh: Math.tanh,
        sigmoid: (v) => 1 / (1 + Math.exp(-v)),
        clamp: (v) => Math.min(1, Math.max(0, v)),
      }[layer.kind];
      steps.push((x) => x.map(apply));
    }
  }
  return (codes) => steps.reduce((x, step) => step(x), Float32Array.from(codes));
}

function dense(x, weights, bias) {
  const out = Float32Array.from(bias), n = out.length;
  for (let i = 0; i < x.length; i++) {
    const v = x[i];
    if (v === 0) continue;
    for (let j = 0, k = i * n; j < n; j++, k++) out[j] += v * weights[k];
  }
  return out;
}

// Kernel 4, stride 2, padding 1: pixel (y, x) adds to rows 2y - 1 .. 2y + 2 and the columns likewise.
function upConvolve(x, height, width, weights, bias, inputs, outputs) {
  const h = 2 * height, w = 2 * width, out = new Float32Array(h * w * outputs);
  for (let i = 0; i < out.length; i++) out[i] = bias[i % outputs];
  for (let row = 0; row < height; row++) for (let column = 0; column < width; column++) {
    for (let c = 0; c < inputs; c++) {
      const v = x[(row * width + column) * inputs + c];
      if (v === 0) continue;
      for (let i = 0; i < 4; i++) {
        const y = 2 * row - 1 + i;
        if (y < 0 || y >= h) continue;
        for (let j = 0; j < 4; j++) {
          const z = 2 * column - 1 + j;
          if (z < 0 || z >= w) continue;
          let to = (y * w + z) * outputs, from = ((c * 4 + i) * 4 + j) * outputs;
          for (let o = 0; o < outputs; o++) out[to++] += v * weights[from++];
        }
      }
    }
  }
  return out;
}

function paint(canvas, image, [height, width, channels]) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d"), pixels = context.createImageData(width, height);
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++) pixels.data[4 * i + c] = 255 * image[i * channels + (channels < 3 ? 0 : c)];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
}
