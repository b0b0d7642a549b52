# Karenina on a CPU: docker build -t karenina . && docker run --rm -v "$PWD:/data" karenina demo --out demo
FROM python:3.11-slim
WORKDIR /opt/karenina
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# With --build-arg PIP_EXTRA_INDEX_URL=URL of PyTorch's index of CPU builds pip takes torch's build for the CPU; without it
# the one with CUDA (several GB), which runs on a CPU, too.
ARG PIP_EXTRA_INDEX_URL=""
RUN pip install --no-cache-dir -c constraints.txt ".[train]"
# The compiled numeric code is cached here whoever runs the container.
ENV NUMBA_CACHE_DIR=/tmp/karenina-numba
WORKDIR /data
ENTRYPOINT ["karenina"]
CMD ["--help"]
