// Package herd tests that tens of thousands of clients return in time when all lose their nodes at once. It contains
// only tests. Each client is a core of the SDK and each node a learner with the rate limits of a client port; the
// connections between them are virtual.
package herd
