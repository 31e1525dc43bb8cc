module hermes-interop/go-http2

go 1.26.0
