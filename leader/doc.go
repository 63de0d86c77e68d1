// Package leader is what a node does for one term of leading: rounds of heartbeats, the accountable clock, deadlines
// and expiry, and the requests that learners pass on. A [Tracker] lives exactly one term. It knows no network and no
// consensus: it speaks [Log], [View] and [Link], which it declares. Rule numbers are those of docs/protocol.md.
package leader
