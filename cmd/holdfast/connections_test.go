package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// ListConnections lists a connection that serves livingID, and one of a client that writes to terminals. The busier one
// is the second for odd nodes.
func (n *fakeNode) ListConnections(_ context.Context,
	m *holdfastv1.ListConnectionsRequest,
) (*holdfastv1.ListConnectionsResponse, error) {
	if err := n.called("connections " + m.GetPrincipal()); err != nil {
		return nil, err
	}
	all := []*holdfastv1.ClientConnection{
		{
			Address: "10.0.0.1:4000", Protocol: holdfastv1.Protocol_PROTOCOL_GRPC, Name: "worker", Verified: true,
			Principals: []string{"ip:10.0.0.1", "x509:CN=w"}, Since: timestamppb.New(session.Epoch()), Sessions: 1,
			Watches: 2, Requests: 30, RequestsPerSecond: 4.25, RateOver: durationpb.New(5 * time.Second), UnsentBytes: 2048,
			SessionIds: []uint64{uint64(livingID)},
		},
		{
			Address: "10.0.0.2:4000", Protocol: holdfastv1.Protocol_PROTOCOL_ZOOKEEPER, Name: "\x1b[31mred", Requests: 7,
			RequestsPerSecond: 5, Since: timestamppb.New(session.Epoch()),
		},
	}
	switch id := session.ID(m.GetSessionId()); {
	case id == livingID && n.number == 1:
		return &holdfastv1.ListConnectionsResponse{Connections: all[:1], Total: 1}, nil
	case id != 0:
		return nil, wire.Status(session.ErrNoConnection)
	}
	slices.Reverse(all)
	return &holdfastv1.ListConnectionsResponse{Connections: all[:min(len(all), int(m.GetLimit()))], Total: 2}, nil
}

func TestClusterConnections(t *testing.T) {
	n := startNode(t)
	listed := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		code, stdout, stderr = execute(t, "", append([]string{"cluster", "connections"}, args...)...)
		address := strings.Repeat("x", 8)
		stdout = strings.ReplaceAll(stdout, n.address, address)
		stdout = strings.ReplaceAll(stdout, strings.Repeat(" ", len(n.address)-8)+"  CLIENT", "  CLIENT")
		return code, stdout, stderr
	}
	code, stdout, _ := listed()
	if code != exitDone {
		t.Errorf("exit code %d", code)
	}
	wantOutput(t, stdout, strings.Join([]string{
		`ENDPOINT  CLIENT         PROTOCOL   NAME                   PRINCIPALS             SINCE                     ` +
			`SESSIONS  WATCHES  REQUESTS  RATE   UNSENT`,
		`xxxxxxxx  10.0.0.2:4000  zookeeper  \x1b[31mred (says so)  -                      2026-01-01T00:00:00.000Z  ` +
			`0         0        7         5.0/s  0B`,
		`xxxxxxxx  10.0.0.1:4000  grpc       worker                 ip:10.0.0.1 x509:CN=w  2026-01-01T00:00:00.000Z  ` +
			`1         2        30        4.2/s  2K`,
	}, "\n"))
	if code, stdout, _ = listed("--limit", "1", "--principal", "work"); code != exitDone ||
		!strings.Contains(stdout, "\n1 of 2 connections") || strings.Contains(stdout, "10.0.0.1") ||
		!slices.Contains(n.calls(), "connections work") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if code, stdout, _ = listed("--session", livingID.String()); code != exitDone ||
		!strings.Contains(stdout, "10.0.0.1") || strings.Contains(stdout, "10.0.0.2") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	code, _, stderr := listed("--session", "0x0200000000020000")
	if code != exitFailed || !strings.Contains(stderr, "no connection of the nodes that were asked serves it") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, args := range [][]string{
		{"--limit", "0"}, {"--limit", "1001"}, {"--session", "x"}, {"--session", tokenText}, {"more"},
	} {
		if code, _, stderr = listed(args...); code != exitUsage {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestClusterConnectionsAsksEveryEndpoint(t *testing.T) {
	n, closed := startNode(t), closedPort(t)
	code, stdout, _ := execute(t, "", "cluster", "connections", "--endpoints", closed+","+n.address, "-o", "json")
	var views []connectionsView
	if err := json.Unmarshal([]byte(stdout), &views); err != nil || len(views) != 2 {
		t.Fatalf("%v in %s", err, stdout)
	}
	if code != exitFailed || views[0].Endpoint != closed || views[0].Error == "" || views[0].Connections == nil ||
		views[1].Total != 2 || len(views[1].Connections) != 2 || views[1].Error != "" {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if w := views[1].Connections[1]; w.Address != "10.0.0.1:4000" || w.Protocol != "grpc" || w.Name != "worker" ||
		!w.Verified || len(w.Principals) != 2 || w.Since != "2026-01-01T00:00:00Z" || w.Sessions != 1 || w.Watches != 2 ||
		w.Requests != 30 || w.Rate != 4.25 || w.RateOverMS != 5000 || w.Unsent != 2048 {
		t.Errorf("%+v", w)
	}
	code, stdout, _ = execute(t, "", "cluster", "connections", "--endpoints", closed+","+n.address)
	if code != exitFailed || !strings.Contains(stdout, "\n"+closed+": ") || !strings.Contains(stdout, "10.0.0.1") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if code, _, _ = execute(t, "", "cluster", "connections", "--endpoints", closed); code != exitUnreachable {
		t.Errorf("exit code %d for no node", code)
	}
}
