package node

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"holdfast/node/config"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/test/bubble"
)

// What an operator did is not lost because the disk of audit_file is full: the line goes to the log.
func TestAuditFileOnAFullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("this system has no " + full)
	}
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, func(cfg *config.Config) { cfg.Auth.AuditFile = full })
		defer c.stop()
		n := c.leader(within)
		if _, err := c.operators(n).UndrainNode(t.Context(), &holdfastv1.UndrainNodeRequest{Node: 1}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"not written to audit_file", "undrain node", syscall.ENOSPC.Error()} {
			if !strings.Contains(n.log.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, n.log)
			}
		}
	})
}
