// Package e2e runs real clusters in containers, through deploy/compose.yaml, and breaks them: it kills, pauses,
// isolates, starves and damages nodes. It reaches them as users do, with the client SDK and the holdfast command. Every
// test checks that its fault really happened, by the counter of dropped packets or by the state of the containers. A
// ledger compares every promise for a session with the session's end. Run it with "make e2e": the build tag is e2e.
//
// Tests share clusters and run beside each other, because they mostly wait. A test leaves a cluster as it found it, or
// fails. Tests with thousands of sessions run alone. E2E=full runs everything: the whole matrix of cuts, more rates of
// loss, longer loops.
//
// The tests of locks run this test's own program as a worker under "holdfast lock". In a box, a container FROM scratch,
// the command is process 1. So the test's program must be static, and "make e2e" builds it with CGO_ENABLED=0.
//
// Figures are logged as lines "figure: NAME VALUE UNIT". The file that E2E_FIGURES names, E.md, collects them as a
// table for people. E.jsonl beside it has one JSON object a line.
package e2e
