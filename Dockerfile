# fhe-auc with both encryption libraries: Python 3.12 on Debian 13, whose C library OpenFHE's wheel for it needs. What is
# installed is locked by hash. It runs as a user without rights, and needs to write in /tmp alone (compose.yaml).
FROM python:3.12-slim-trixie AS build
WORKDIR /src
COPY requirements requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/build.txt
RUN python -m venv --without-pip /opt/fhe-auc \
    && pip --python /opt/fhe-auc/bin/python install --no-cache-dir --require-hashes -r requirements/sites.txt
COPY . .
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir dist . \
    && pip --python /opt/fhe-auc/bin/python install --no-cache-dir --no-deps dist/*.whl

FROM python:3.12-slim-trixie
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* \
    && pip uninstall --yes pip && rm -rf /usr/local/lib/python3.12/ensurepip \
    && useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin fhe-auc
COPY --from=build /opt/fhe-auc /opt/fhe-auc
ENV PATH=/opt/fhe-auc/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["fhe-auc"]
CMD ["demo"]
