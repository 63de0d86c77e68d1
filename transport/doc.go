// Package transport carries Holdfast's vocabulary over gRPC: the client port, the peer port, the stubs that dial both,
// and the one place where domain errors become statuses and statuses become domain errors. It validates every field of
// every request before anything behind it sees the request, and it bounds what one client may make a node hold. A
// [Gate] bounds what all clients may make it do.
package transport
