# fhe-auc on Debian 13 and its Python: what is installed is Debian's, or locked by hash. It runs as a user without rights,
# and needs to write in /tmp alone (compose.yaml). scripts/try_image.sh runs these steps where there is no Docker.
FROM debian:trixie-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv
WORKDIR /src
COPY requirements requirements
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --only-binary :all: \
    --require-hashes -r requirements/build.txt
RUN python3 -m venv --without-pip /opt/fhe-auc \
    && /opt/build/bin/pip --python /opt/fhe-auc/bin/python install --no-cache-dir \
        --only-binary :all: --require-hashes -r requirements/sites.txt
COPY . .
RUN /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/build/bin/pip --python /opt/fhe-auc/bin/python install --no-cache-dir --no-deps dist/*.whl

FROM debian:trixie-slim
RUN apt-get update && apt-get upgrade --yes \
    && apt-get install --yes --no-install-recommends ca-certificates libgomp1 python3 && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin fhe-auc
COPY --from=build /opt/fhe-auc /opt/fhe-auc
ENV PATH=/opt/fhe-auc/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["fhe-auc"]
CMD ["demo"]
