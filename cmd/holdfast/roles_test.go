package main

import (
	"strings"
	"testing"

	"holdfast/node/config"
	"holdfast/test/certs"
	"holdfast/transport/secure"
)

// A side that does not agree on TLS is said to be so at once, with exit code 1, by every command: no node was silent, and
// its port is the right one.
func TestCommandsThatDoNotAgreeOnTLS(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	encrypted := startNodes(t, 1, func(cfg *config.Config) {
		f := ca.Node(cfg.ClusterID, cfg.Node)
		cfg.TLS = config.TLS{
			Nodes: secure.Off, Clients: secure.Require, HTTP: secure.Off, ClientAuth: secure.AuthNone,
			Cert: f.Cert, Key: f.Key, CA: f.CA,
		}
	})[0]
	plain := startNodes(t, 1, asIs)[0]
	for name, tt := range map[string]struct {
		address, cacert, why string
	}{
		"plain to TLS": {encrypted.address, "", "it requires TLS, and this side speaks without TLS"},
		"another CA":   {encrypted.address, other.File, "its certificate is not accepted"},
		"TLS to plain": {plain.address, ca.File, "it speaks without TLS"},
	} {
		for _, command := range []string{
			"ls /", "create /a", "session open --timeout 4s", "session ls", "cluster status", "cluster members", "ping",
		} {
			args := append([]string{"--endpoints", tt.address, "--cacert", tt.cacert}, strings.Fields(command)...)
			code, stdout, stderr := execute(t, "", patient(args)...)
			if code != exitFailed || !strings.Contains(stderr, tt.why) || strings.Contains(stdout+stderr, "reached") ||
				strings.Contains(stdout+stderr, "not a client port") || strings.Contains(stderr, "not done within") {
				t.Errorf("%s: %s: exit code %d, want %d with %q: %s%s", name, command, code, exitFailed, tt.why, stdout, stderr)
			}
		}
	}
	if code, stdout, stderr := execute(t, "", patient([]string{
		"--endpoints", encrypted.address, "--cacert", ca.File, "ls", "/",
	})...); code != exitDone {
		t.Errorf("two sides that agree: exit code %d: %s%s", code, stdout, stderr)
	}
}
