package clientport

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protoreflect"

	"holdfast/auth"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/authfile"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/authz"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// Every call of every service of the port has a row in the table of what calls need, and every row is of such a call.
func TestEveryCallHasItsRoles(t *testing.T) {
	table := auth.ClientPort()
	s := New(Config{Operators: Operators{Admin: struct{ session.Administration }{}}}, &fakeService{}, fakeCluster{})
	for service, info := range s.port.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			if _, ok := table[method]; !ok {
				t.Errorf("%s has no row: add one to auth/table.go, with the roles that may make it, and the name of the "+
					"act if an operator changes something by it", method)
			}
			delete(table, method)
		}
	}
	for method := range table {
		t.Errorf("%s has a row, and no service has it", method)
	}
}

// Each request of a Connect stream has a call that does the same alone, and whoever may make that call may begin a
// stream. Touches and batches are no requests of their own.
func TestEveryRequestHasItsCall(t *testing.T) {
	table := auth.ClientPort()
	connect := table[holdfastv1.SessionService_Connect_FullMethodName].Needs
	check := func(name string, m *holdfastv1.ClientMessage) {
		t.Helper()
		if needs := table[single(m)].Needs; needs == 0 || needs&^connect != 0 {
			t.Errorf("%s is done alone by %q, which needs %v; Connect needs %v: see single.go and auth/table.go", name,
				single(m), needs, connect)
		}
	}
	each := func(m protoreflect.Message, oneof string, then func(protoreflect.FieldDescriptor)) {
		fields := m.Descriptor().Oneofs().ByName(protoreflect.Name(oneof)).Fields()
		for i := range fields.Len() {
			m.Set(fields.Get(i), m.NewField(fields.Get(i)))
			then(fields.Get(i))
		}
	}
	m := &holdfastv1.ClientMessage{}
	each(m.ProtoReflect(), "message", func(f protoreflect.FieldDescriptor) {
		switch f.Name() {
		case "touch", "batch":
		case "read":
			each(m.GetRead().ProtoReflect(), "read", func(kind protoreflect.FieldDescriptor) {
				check(string(f.Name()+"."+kind.Name()), m)
			})
		default:
			check(string(f.Name()), m)
		}
	})
}

// roles is a guard with a token for each name, whose roles a test may change.
type roles struct {
	t      *testing.T
	tokens map[string]auth.Token
	book   *auth.Book
}

// withRoles returns the configuration of a port whose callers have these roles.
func withRoles(t *testing.T, all map[string]auth.Roles) (Config, *roles) {
	t.Helper()
	r := &roles{t: t, tokens: authfile.Make(all)}
	r.set(all)
	return Config{Authorizer: authz.New(authz.Config{
		Logger: hclog.NewNullLogger(), Mode: authz.Tokens, Book: func() *auth.Book { return r.book },
		Table: auth.ClientPort(),
	})}, r
}

func (r *roles) set(all map[string]auth.Roles) {
	r.t.Helper()
	var err error
	if r.book, err = auth.Parse([]byte(authfile.Text(r.t, r.tokens, all))); err != nil {
		r.t.Fatal(err)
	}
}

// as returns a context that shows the token of a name.
func (r *roles) as(ctx context.Context, name string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, wire.AuthorizationKey, wire.BearerScheme+" "+r.tokens[name].Secret())
}

// Roles decide by what is asked in a stream: readers and operators read the tree and watch it, and open no session and
// write nothing.
func TestRequestsOfAStreamNeedTheirRoles(t *testing.T) {
	cfg, keys := withRoles(t, map[string]auth.Roles{
		"client": auth.Client, "reader": auth.Reader, "operator": auth.Operator, "admin": auth.Admin,
	})
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, answeringTree)
		_, network, stop := clientPort(t, cfg, service)
		defer stop()
		sessions := []*holdfastv1.ClientMessage{
			openMessage(1), resumeMessage(2, 7), closeMessage(3, 7), upgradeMessage(4, 7), writeMessage(5, 7, 1),
			resumesMessage(6, 7), batchMessage(writeMessage(12, 7, 1)),
		}
		reads := []*holdfastv1.ClientMessage{
			touchMessage(7), readMessage(8, 0), addMessage(9, 0), removeMessage(10), batchMessage(readMessage(11, 0)),
		}
		for name, opens := range map[string]bool{"client": true, "reader": false, "operator": false, "admin": true} {
			ctx, cancel := context.WithCancel(keys.as(t.Context(), name))
			stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range append(reads, sessions...) {
				send(t, stream, m)
				all, _ := receiveAnswers(t, stream, 1)
				failed := wire.FailedError(all[0].GetFailed())
				if all[0].GetFailed() == nil {
					failed = nil
				}
				allowed := opens || singleOf(m) == "" || auth.Reader.Allow(auth.ClientPort()[singleOf(m)].Needs)
				if refused := errors.Is(failed, session.ErrForbidden); refused == allowed {
					t.Errorf("%s asks for %v: %v", name, m, failed)
				} else if denied, ok := errors.AsType[*session.AccessError](failed); refused &&
					(!ok || fmt.Sprint(denied.Needs) != "[client]" || denied.Who != "token:"+name) {
					t.Errorf("%s: %v does not say which role is needed", name, failed)
				}
			}
			cancel()
		}
	})
}

// A stream that has a session ends with the role by which it has it. A stream that only reads continues.
func TestAStreamNeedsTheRoleOfWhatItHasBegun(t *testing.T) {
	before := map[string]auth.Roles{"both": auth.Client | auth.Reader, "reads": auth.Client | auth.Reader}
	cfg, keys := withRoles(t, before)
	bubble.Test(t, func(t *testing.T) {
		service := &fakeService{}
		withTree(service, answeringTree)
		_, network, stop := clientPort(t, cfg, service)
		defer stop()
		streams := map[string]holdfastv1.SessionService_ConnectClient{}
		for name := range before {
			ctx, cancel := context.WithCancel(keys.as(t.Context(), name))
			defer cancel()
			stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
			if err != nil {
				t.Fatal(err)
			}
			streams[name] = stream
		}
		send(t, streams["both"], resumeMessage(1, 7))
		send(t, streams["reads"], readMessage(1, 0))
		for _, s := range streams {
			receiveAnswers(t, s, 1)
		}
		keys.set(map[string]auth.Roles{"both": auth.Reader, "reads": auth.Reader})
		for name, want := range map[string]error{"both": session.ErrForbidden, "reads": nil} {
			send(t, streams[name], touchMessage(2))
			_, err := streams[name].Recv()
			if err = wire.Domain(err); want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%s after the loss of the role client: got %v, want %v", name, err, want)
			}
		}
		send(t, streams["reads"], openMessage(3))
		wantTexts(t, streams["reads"], "failed 3: REASON_PERMISSION_DENIED ")
	})
}

// singleOf is single for a message that may be a batch of one.
func singleOf(m *holdfastv1.ClientMessage) string {
	if b := m.GetBatch(); b != nil {
		m = b.GetRequests()[0]
	}
	return single(m)
}

func upgradeMessage(seq uint64, id session.ID) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Upgrade{Upgrade: &holdfastv1.Upgrade{
		Seq: seq, Token: wire.TokenProto(porttest.Grant(id).Token),
	}}}
}
