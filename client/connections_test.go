package client

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// ListConnections answers with two connections, of which one serves session 7.
func (n *fakeNode) ListConnections(_ context.Context,
	m *holdfastv1.ListConnectionsRequest,
) (*holdfastv1.ListConnectionsResponse, error) {
	if err := n.scripted("connections"); err != nil {
		return nil, err
	}
	all := []*holdfastv1.ClientConnection{
		{
			Address: "10.0.0.1:4000", Protocol: holdfastv1.Protocol_PROTOCOL_GRPC, Name: "worker", Verified: true,
			Principals: []string{"ip:10.0.0.1"}, Since: timestamppb.New(session.Epoch()), Sessions: 1, Watches: 2,
			Requests: 3, RequestsPerSecond: 4.5, RateOver: durationpb.New(5 * time.Second), UnsentBytes: 6,
			SessionIds: []uint64{7}[:min(m.GetSessionIds(), 1)],
		},
		{Address: "10.0.0.2:4000", Protocol: holdfastv1.Protocol_PROTOCOL_ZOOKEEPER},
		{Protocol: 9, Name: "claimer"},
	}
	switch {
	case m.GetSessionId() == 7:
		return &holdfastv1.ListConnectionsResponse{Connections: all[:1], Total: 1}, nil
	case m.GetSessionId() != 0:
		return nil, wire.Status(session.ErrNoConnection)
	case m.GetPrincipal() == "none":
		return &holdfastv1.ListConnectionsResponse{}, nil
	case m.GetLimit() > 0:
		all = all[:min(int(m.GetLimit()), len(all))]
	}
	return &holdfastv1.ListConnectionsResponse{Connections: all, Total: 3}, nil
}

func TestConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		at := c.endpoints(2, 2)[0]
		all, err := cl.Connections(t.Context(), at, ConnectionOptions{})
		if err != nil || all.Total != 3 || len(all.Connections) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		worker := ClientConnection{
			Address: "10.0.0.1:4000", Protocol: "grpc", Name: "worker", Verified: true, Principals: []string{"ip:10.0.0.1"},
			Since: session.Epoch().UTC(), Sessions: 1, Watches: 2, Requests: 3, Unsent: 6, Rate: 4.5, Over: 5 * time.Second,
		}
		if got := all.Connections[0]; !reflect.DeepEqual(got, worker) {
			t.Errorf("got %+v, want %+v", got, worker)
		}
		if a, b := all.Connections[1].Protocol, all.Connections[2].Protocol; a != "zookeeper" || b != "unknown" {
			t.Errorf("protocols %s, %s", a, b)
		}
		for _, tt := range []struct {
			o    ConnectionOptions
			want int
		}{{ConnectionOptions{Limit: 2}, 2}, {ConnectionOptions{Session: 7}, 1}, {ConnectionOptions{Principal: "none"}, 0}} {
			got, failed := cl.Connections(t.Context(), at, tt.o)
			if failed != nil || len(got.Connections) != tt.want {
				t.Errorf("%+v: %+v, %v", tt.o, got, failed)
			}
		}
		if _, err = cl.Connections(t.Context(), at, ConnectionOptions{Session: 8}); !errors.Is(err, session.ErrNoConnection) {
			t.Errorf("a session that nobody serves: %v", err)
		}
		if got, failed := cl.Connections(t.Context(), at, ConnectionOptions{SessionIDs: 1}); failed != nil ||
			!slices.Equal(got.Connections[0].SessionIDs, []session.ID{7}) {
			t.Errorf("with an id of a session: %+v, %v", got, failed)
		}
		for _, most := range []int{-1, 1001} {
			_, err = cl.Connections(t.Context(), at, ConnectionOptions{SessionIDs: most})
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "session_ids" {
				t.Errorf("%d ids: %v", most, err)
			}
		}
		for _, limit := range []int{-1, MaxListedConnections + 1} {
			_, err = cl.Connections(t.Context(), at, ConnectionOptions{Limit: limit})
			if field, ok := errors.AsType[*session.FieldError](err); !ok || field.Field != "limit" {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
		if one, failed := ConnectionOf(t.Context(), cl, 7, 2); failed != nil || one.Address != "10.0.0.1:4000" {
			t.Errorf("the connection of a session: %+v, %v", one, failed)
		}
		if _, err = ConnectionOf(t.Context(), cl, 8, 2); !errors.Is(err, session.ErrNoConnection) {
			t.Errorf("the connection of a session without one: %v", err)
		}
		if _, err = ConnectionOf(t.Context(), cl, 7, 9); !errors.Is(err, ErrUnreachable) {
			t.Errorf("of a node that is no member: %v", err)
		}
		c.node(2).down()
		if _, err = cl.Connections(t.Context(), at, ConnectionOptions{}); !errors.Is(err, ErrUnreachable) {
			t.Errorf("a node that is down: %v", err)
		}
	})
}
