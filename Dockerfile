# Both commands as static binaries in an image without a shell. Build it with
# `docker compose build`; nothing in it is particular to Compose.

FROM golang:1.26-bookworm AS build
WORKDIR /src
ENV GOMODCACHE=/cache/mod GOCACHE=/cache/build
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/cache \
    go mod download
COPY . .
RUN --mount=type=cache,target=/cache \
    CGO_ENABLED=0 go build -trimpath -o /out/ ./cmd/...

# Brings certificates, time zones and the user 65532, and nothing that runs.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/worker /out/enqueue /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/worker"]
CMD ["run", "--config", "/etc/nightshift/nightshift.yaml"]
