# An image's environment: system packages, then its workers. `./noxw -s images` builds it and takes
# what each of the two stages adds, in normal form; nothing else of it is kept.
# Secrets, which are in no layer: `certificates` (a bundle), `sources` (addresses of indexes), and
# `mirror` (apt's line for the packages; only where the base was made here, and says none itself).
ARG BASE
FROM ${BASE} AS system
ARG PACKAGES=""
ARG PYTHONS="3.13"
# A Python that the base has not is one of uv's, which knows the digest of each.
# apt fetches as a user of its own, which has to read the bundle too.
RUN --mount=type=bind,target=/context \
    --mount=type=secret,id=certificates,target=/run/secrets/certificates,mode=0444 \
    --mount=type=secret,id=mirror,target=/run/secrets/mirror \
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 APT_CONFIG=/tmp/apt.conf \
    && : >/tmp/apt.conf \
    && if [ -e /run/secrets/certificates ]; then \
        echo 'Acquire::https::CAInfo "/run/secrets/certificates";' >>/tmp/apt.conf \
        && export SSL_CERT_FILE=/run/secrets/certificates; \
    fi \
    && if [ -e /run/secrets/mirror ]; then \
        echo 'Dir::Etc::SourceList "/run/secrets/mirror";' >>/tmp/apt.conf; \
    fi \
    && if [ -n "${PACKAGES}" ]; then \
        apt-get update -qq && apt-get install -y -qq --no-install-recommends ${PACKAGES}; \
    fi \
    && for minor in ${PYTHONS}; do \
        command -v "python${minor}" >/dev/null \
        || UV_PYTHON_INSTALL_DIR=/opt/python UV_PYTHON_BIN_DIR=/usr/local/bin \
            /context/uv python install --no-config "${minor}" \
        || exit 1; \
    done

FROM system AS workers
ARG PYTHONS="3.13"
RUN --mount=type=bind,target=/context \
    --mount=type=secret,id=certificates,target=/run/secrets/certificates \
    --mount=type=secret,id=sources,target=/run/secrets/sources \
    "python${PYTHONS##* }" -B /context/harness/exacthead/images/inside/build.py /context/order.json
