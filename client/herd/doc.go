// Package herd lets tens of thousands of clients lose their nodes at once, and counts when they are back. It holds
// tests alone: the core of each client is the SDK's own, the nodes are the program's own, and what lies between them is
// virtual.
package herd
