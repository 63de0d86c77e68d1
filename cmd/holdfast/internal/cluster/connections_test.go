package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
)

func TestClusterConnections(t *testing.T) {
	n := fakenode.Start(t)
	listed := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		code, stdout, stderr = clitest.Execute(t, "", append([]string{"cluster", "connections"}, args...)...)
		address := strings.Repeat("x", 8)
		stdout = strings.ReplaceAll(stdout, n.Address, address)
		stdout = strings.ReplaceAll(stdout, strings.Repeat(" ", len(n.Address)-8)+"  CLIENT", "  CLIENT")
		return code, stdout, stderr
	}
	code, stdout, _ := listed()
	if code != cli.ExitDone {
		t.Errorf("exit code %d", code)
	}
	clitest.WantOutput(t, stdout, strings.Join([]string{
		`ENDPOINT  CLIENT         PROTOCOL   NAME                      PRINCIPALS             SINCE                     ` +
			`SESSIONS  WATCHES  REQUESTS  RATE   UNSENT`,
		`xxxxxxxx  10.0.0.2:4000  zookeeper  \x1b[31mred (unverified)  -                      2026-01-01T00:00:00.000Z  ` +
			`0         0        7         5.0/s  0B`,
		`xxxxxxxx  10.0.0.1:4000  grpc       worker                    ip:10.0.0.1 x509:CN=w  2026-01-01T00:00:00.000Z  ` +
			`1         2        30        4.2/s  2K`,
	}, "\n"))
	if code, stdout, _ = listed("--limit", "1", "--principal", "work"); code != cli.ExitDone ||
		!strings.Contains(stdout, "\n1 of 2 connections") || strings.Contains(stdout, "10.0.0.1") ||
		!slices.Contains(n.Calls(), "connections work") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if code, stdout, _ = listed("--session", fakenode.LivingID.String()); code != cli.ExitDone ||
		!strings.Contains(stdout, "10.0.0.1") || strings.Contains(stdout, "10.0.0.2") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	code, _, stderr := listed("--session", "0x0200000000020000")
	if code != cli.ExitFailed || !strings.Contains(stderr, "no connection of these nodes serves it") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, args := range [][]string{
		{"--limit", "0"}, {"--limit", "1001"}, {"--session", "x"}, {"--session", fakenode.TokenText}, {"more"},
	} {
		if code, _, stderr = listed(args...); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestClusterConnectionsAsksEveryEndpoint(t *testing.T) {
	n, closed := fakenode.Start(t), fakenode.ClosedPort(t)
	code, stdout, _ := clitest.Execute(t, "", "cluster", "connections", "--endpoints", closed+","+n.Address, "-o", "json")
	var views []connectionsView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || len(views) != 2 {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != cli.ExitFailed || views[0].Endpoint != closed || views[0].Error == "" || views[0].Connections == nil ||
		views[1].Total != 2 || len(views[1].Connections) != 2 || views[1].Error != "" {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if w := views[1].Connections[1]; w.Address != "10.0.0.1:4000" || w.Protocol != "grpc" || w.Name != "worker" ||
		!w.Verified || len(w.Principals) != 2 || w.Since != "2026-01-01T00:00:00Z" || w.Sessions != 1 || w.Watches != 2 ||
		w.Requests != 30 || w.Rate != 4.25 || w.RateOverMS != 5000 || w.Unsent != 2048 {
		t.Errorf("%+v", w)
	}
	code, stdout, _ = clitest.Execute(t, "", "cluster", "connections", "--endpoints", closed+","+n.Address)
	if code != cli.ExitFailed || !strings.Contains(stdout, "\n"+closed+": ") || !strings.Contains(stdout, "10.0.0.1") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if code, _, _ = clitest.Execute(t, "", "cluster", "connections", "--endpoints", closed); code != cli.ExitUnreachable {
		t.Errorf("exit code %d for no node", code)
	}
}
