package client

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// allocator hands out blocks from 1 on.
type allocator struct {
	holdfastv1.UnimplementedIdServiceServer
	next uint64
}

func (a *allocator) AllocateIds(_ context.Context,
	m *holdfastv1.AllocateIdsRequest,
) (*holdfastv1.AllocateIdsResponse, error) {
	first := a.next + 1
	a.next += uint64(m.GetCount())
	return &holdfastv1.AllocateIdsResponse{First: first, Count: m.GetCount()}, nil
}

func TestAllocateIDs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	holdfastv1.RegisterIdServiceServer(server, &allocator{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	c, err := New(Config{Endpoints: []string{listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, want := range []session.ID{1, 11} {
		if got, err := c.AllocateIDs(t.Context(), 10); err != nil || got != want {
			t.Errorf("a block begins with %v, %v; want %v", got, err, want)
		}
	}
	for _, count := range []uint32{0, session.MaxClaim + 1} {
		if _, err := c.AllocateIDs(t.Context(), count); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%d ids: %v, want %v", count, err, session.ErrInvalid)
		}
	}
}
