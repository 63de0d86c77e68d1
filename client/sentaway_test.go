package client

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/bubble"
)

// The log has the reason why a client searches for another node: its node is being drained, or has a full disk (O5 full
// disks).
func TestTheLogSaysWhyANodeIsLeft(t *testing.T) {
	for name, full := range map[string]bool{"is being drained": false, "the node's disk is full": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 2)
				var log bytes.Buffer
				cl := newClientWith(t, Config{
					Endpoints: c.endpoints(1, 2), Dial: c.dial, Logger: hclog.New(&hclog.LoggerOptions{Output: &log}),
				})
				mustOpen(t, cl, time.Minute)
				c.everyNode(func(n *fakeNode) {
					n.broadcast(&holdfastv1.ServerMessage{
						Message: &holdfastv1.ServerMessage_Draining{Draining: &holdfastv1.Draining{DiskFull: full}},
					})
				})
				synctest.Wait()
				said := log.String()
				if !strings.Contains(said, "looking for another node") || !strings.Contains(said, name) ||
					full && strings.Contains(said, "drained") {
					t.Errorf("the log says:\n%s", said)
				}
			})
		})
	}
}
