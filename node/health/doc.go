// Package health decides whether a node serves, and takes a node out of service that should not serve.
//
//   - [Health] answers whether the node is ready, and collects its warnings.
//   - [Resources] watches disk and memory, and has the rate limits refuse requests when either runs out (O5 full
//     disks).
//   - [Drain] moves leadership and clients to other nodes, for an operator, for a stop or because the disk is full.
//   - [Transfer] transfers Raft's leadership to another voter.
//   - [Supervisor] acts on what the watchdog finds: the node steps out while it stalls, and comes back.
//   - [Freezes] knows whether the cluster is frozen (Y3 freeze).
//
// The parts know no node: their user connects them.
package health
