package entry

import (
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// begins returns c with the feature level, and with the default limits if it has none.
func begins(c session.Configure) session.Configure {
	c.Level = session.FeatureLevel
	if c.Limits == (tree.Limits{}) {
		c.Limits = tree.DefaultLimits()
	}
	return c
}

// opening returns an open through node 1 with request id n.
func opening(n byte) session.OpenSession {
	return session.OpenSession{
		Node: 1, MS: 1000, Spec: session.Spec{Timeout: 4 * time.Second},
		RequestID: session.RequestID{n},
	}
}
