package clientport

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/census"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// A node lists its Connect streams: whose they are, what they hold, how busy they are. Single calls are none.
func TestListConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, nil)
		_, network, stop := clientPort(t, Config{Super: "boss:" + digestOf(t, "boss:secret")}, service)
		defer stop()
		c := holdfastv1.NewClusterServiceClient(dialPipes(t, network))
		list := func(req *holdfastv1.ListConnectionsRequest) *holdfastv1.ListConnectionsResponse {
			t.Helper()
			answer, err := c.ListConnections(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		if got := list(&holdfastv1.ListConnectionsRequest{}); got.GetTotal() != 0 || len(got.GetConnections()) != 0 {
			t.Errorf("a port with single calls alone lists %v", got)
		}
		began := time.Now()
		quiet := holding(t, network, 7)
		ctx := metadata.AppendToOutgoingContext(t.Context(), wire.DigestKey, "boss:secret", wire.ClientNameKey, "worker")
		busy, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
		if err != nil {
			t.Fatal(err)
		}
		send(t, busy, resumeMessage(1, 8), resumeMessage(2, 9))
		receive(t, busy)
		receive(t, busy)
		time.Sleep(3 * time.Second)
		for seq := range uint64(4) {
			send(t, busy, touchMessage(3+seq))
			receive(t, busy)
		}
		send(t, busy, addMessage(7, 0))
		synctest.Wait()

		all := list(&holdfastv1.ListConnectionsRequest{})
		if all.GetTotal() != 2 || len(all.GetConnections()) != 2 {
			t.Fatalf("listed: %v", all)
		}
		first, second := all.GetConnections()[0], all.GetConnections()[1]
		if text := fmt.Sprintf("%v %s %t %v %d %d %d %.2f %v %d", first.GetProtocol(),
			first.GetName(), first.GetVerified(), first.GetPrincipals(), first.GetSessions(),
			first.GetWatches(), first.GetRequests(), first.GetRequestsPerSecond(),
			first.GetRateOver().AsDuration(), first.GetUnsentBytes()); text !=
			"PROTOCOL_GRPC worker false [digest:boss super] 2 1 7 2.33 3s 0" {
			t.Errorf("the busiest: %s", text)
		}
		if second.GetSessions() != 1 || second.GetRequests() != 1 || second.GetName() != "" ||
			!second.GetSince().AsTime().Equal(began) || second.GetAddress() != "pipe" {
			t.Errorf("the other: %v", second)
		}
		for filter, want := range map[*holdfastv1.ListConnectionsRequest]*holdfastv1.ClientConnection{
			{Limit: 1}:                         first,
			{SessionId: 7}:                     second,
			{SessionId: 9}:                     first,
			{Principal: "work"}:                first,
			{Principal: "digest:b", Limit: 10}: first,
		} {
			if got := list(filter); len(got.GetConnections()) != 1 || !proto.Equal(got.GetConnections()[0], want) ||
				got.GetTotal() != uint64(2-min(1, len(filter.GetPrincipal())+int(filter.GetSessionId()))) { //nolint:gosec // small
				t.Errorf("%v: %v", filter, got)
			}
		}
		some := list(&holdfastv1.ListConnectionsRequest{SessionIds: 100}).GetConnections()
		if !slices.Equal(some[0].GetSessionIds(), []uint64{8, 9}) || !slices.Equal(some[1].GetSessionIds(), []uint64{7}) {
			t.Errorf("the sessions of the two: %v", some)
		}
		if one := list(&holdfastv1.ListConnectionsRequest{SessionIds: 1}).GetConnections()[0].GetSessionIds(); len(one) != 1 {
			t.Errorf("one of two sessions: %v", one)
		}
		_ = quiet.CloseSend()
		synctest.Wait()
		_, err = c.ListConnections(t.Context(), &holdfastv1.ListConnectionsRequest{SessionId: 7})
		if status.Code(err) != codes.NotFound || !errors.Is(wire.Domain(err), session.ErrNoConnection) {
			t.Errorf("a session without a connection: %v", err)
		}
		if got := list(&holdfastv1.ListConnectionsRequest{}); got.GetTotal() != 1 {
			t.Errorf("after one has ended: %v", got)
		}
	})
}

func digestOf(t *testing.T, credentials string) string {
	t.Helper()
	digest, ok := tree.DigestOf(credentials)
	if !ok {
		t.Fatal("no digest")
	}
	_, hash, _ := strings.Cut(digest, ":")
	return hash
}

func TestListConnectionsRefusals(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		c := holdfastv1.NewClusterServiceClient(dialPipes(t, network))
		for want, req := range map[string]*holdfastv1.ListConnectionsRequest{
			"limit: 1 to 1000, 0 means 100":   {Limit: 1001},
			"principal: at most 1024 bytes":   {Principal: strings.Repeat("x", 1025)},
			"session_ids: 0 to 100":           {Limit: 1000, SessionIds: 101},
			"session_ids: 0 to 1000":          {SessionIds: 1001},
			"session_ids: 0 to 100000":        {Limit: 1, SessionIds: 100_001},
			"limit: 1 to 1000, 0 means 100 ":  {Limit: 1 << 31},
			"principal: at most 1024 bytes  ": {Principal: strings.Repeat("x", 100_000), Limit: 1000},
		} {
			_, err := c.ListConnections(t.Context(), req)
			field, ok := errors.AsType[*session.FieldError](wire.Domain(err))
			if !ok || field.Field+": "+field.Limit != strings.TrimRight(want, " ") {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if _, err := c.ListConnections(t.Context(), &holdfastv1.ListConnectionsRequest{
			Limit: 1000, Principal: strings.Repeat("x", 1024),
		}); err != nil {
			t.Error(err)
		}
	})
}

// An answer stays below the clients' limit, with a thousand callers of the longest names.
func TestListConnectionsOfLongNames(t *testing.T) {
	who := census.Caller{Name: strings.Repeat("n", session.MaxClientName)}
	for range tree.MaxPrincipals {
		who.Principals = append(who.Principals, tree.Principal{
			Scheme: tree.X509, ID: strings.Repeat("x", tree.MaxPrincipal/tree.MaxPrincipals-len(tree.X509)),
		})
	}
	if err := tree.CheckPrincipals(who.Principals); err != nil {
		t.Fatal(err)
	}
	answer := connectionsProto(slices.Repeat([]census.Connection{{Caller: who, Address: "host:1"}}, maxConnections), 5000)
	if n := len(answer.GetConnections()); n < 100 || n == maxConnections || answer.GetTotal() != 5000 ||
		proto.Size(answer) > wire.DefaultMessageBytes {
		t.Errorf("%d connections in %d bytes, %d in all", n, proto.Size(answer), answer.GetTotal())
	}
}
