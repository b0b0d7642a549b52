# Karenina on a CPU: docker build -t karenina . && docker run --rm -v "$PWD:/data" karenina demo --out demo
FROM python:3.11-slim
WORKDIR /opt/karenina
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# Without it pip takes torch's build with CUDA (several GB): --build-arg TORCH_INDEX=URL of PyTorch's index of CPU builds.
ARG TORCH_INDEX=""
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch==2.13.0 \
    && pip install --no-cache-dir -c constraints.txt .
# The compiled numeric code is cached here whoever runs the container.
ENV NUMBA_CACHE_DIR=/tmp/karenina-numba
WORKDIR /data
ENTRYPOINT ["karenina"]
CMD ["--help"]
