// Package e2e runs real clusters in containers, through deploy/compose.yaml, and breaks them: it kills, pauses, cuts
// off, starves and damages nodes. It reaches them as users do, with the client SDK and the holdfast command. Every test
// shows that its fault really happened, with the counter of the packets that were dropped or the state of the
// containers, and a ledger holds every promise that any session was given against what became of the session. Run it
// with "make e2e": the build tag is e2e.
//
// Tests share clusters and run beside each other, for they mostly wait; a test leaves a cluster as it found it, or
// fails. Those with thousands of sessions run alone. E2E=full takes no short cuts: the whole matrix of cuts, more rates
// of loss, longer loops.
//
// Figures are logged as lines "figure: NAME VALUE UNIT", and collected into the file that E2E_FIGURES names, E.md, as a
// table for people, and beside it, E.jsonl, one JSON object a line.
package e2e
