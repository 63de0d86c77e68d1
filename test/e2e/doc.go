// Package e2e runs real clusters in containers, through deploy/compose.yaml, and breaks them: it kills, pauses and cuts off nodes.
// It reaches them as users do, with the client SDK and the holdfast command. Every test shows that its fault really
// happened, and that no promise was broken. Run it with "make e2e": the build tag is e2e.
package e2e
