package unary

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// About makes a call about the session of t: at any node for a global session, at its own node for a local one.
func (n *Nodes) About(ctx context.Context, t session.Token, call Call) error {
	if !t.Local {
		return n.Any(ctx, call)
	}
	return n.Home(ctx, call)
}

// Home makes a call at the node that serves a session. Only the owner touches a session, and only the node of a local
// session knows it. Home searches for the node until ctx ends: it asks the servers, then the other members. When ctx
// ends, the error wraps its cause and the last obstacle.
func (n *Nodes) Home(ctx context.Context, call Call) error {
	var trouble route.Failure
	for nth := 1; ; nth++ {
		decided, err := n.searchHome(ctx, nil, call)
		if decided {
			return err
		}
		trouble.Met(err)
		if err := n.backOff(ctx, nth, &trouble); err != nil {
			return err
		}
	}
}

// searchHome makes a call once at each node, until a node gives another answer than "the session is another node's".
// The call is also decided when every node gives this answer; foreign is such an answer from before the search, or nil.
// The error of an undecided search joins the obstacles. It is [route.ErrUnreachable] when no further node has answered.
func (n *Nodes) searchHome(ctx context.Context, foreign error, call Call) (decided bool, err error) {
	s := search{nodes: n, call: call, foreign: foreign}
	servers := n.Order()
	if s.ask(ctx, servers) {
		return true, s.answer
	}
	var members []string
	var trouble route.Failure
	if known, err := n.round(ctx, time.Now(), &trouble, addressesInto(&members)); !known || err != nil {
		return false, s.undecided(err)
	}
	others := slices.DeleteFunc(members, func(address string) bool { return slices.Contains(servers, address) })
	switch {
	case s.ask(ctx, others):
		return true, s.answer
	case len(s.obstacles) == 0:
		return true, s.foreign
	default:
		return false, s.undecided(nil)
	}
}

// Members returns the client addresses of all members of the cluster, as any node lists them. Errors are those of
// [Nodes.Any].
func (n *Nodes) Members(ctx context.Context) (addresses []string, err error) {
	err = n.Any(ctx, addressesInto(&addresses))
	return addresses, err
}

// addressesInto returns a call that puts the client addresses of all members into addresses.
func addressesInto(addresses *[]string) Call {
	return func(ctx context.Context, cc *grpc.ClientConn) error {
		answer, err := holdfastv1.NewClusterServiceClient(cc).ListMembers(ctx, &holdfastv1.ListMembersRequest{})
		*addresses = nil
		for _, m := range answer.GetMembers() {
			*addresses = append(*addresses, m.GetClientAddress())
		}
		return err
	}
}

// search is a call that searches for the node of a session.
type search struct {
	nodes     *Nodes
	call      Call
	answer    error   // of the session's node; nil for success
	foreign   error   // a node's answer that the session is, or was, another node's
	obstacles []error // of nodes that decided nothing
}

// ask asks one node after the other, and reports whether a node decided the call.
func (s *search) ask(ctx context.Context, addresses []string) bool {
	for _, address := range addresses {
		switch err := s.nodes.at(ctx, address, s.call); {
		case NotHome(err):
			if !errors.Is(s.foreign, session.ErrMoved) {
				s.foreign = err
			}
		case route.Classify(err) == route.Final:
			s.answer = err
			return true
		default:
			s.obstacles = append(s.obstacles, err)
		}
	}
	return false
}

// undecided joins the obstacles with err. It quotes the answers of other nodes as plain text, see [foreignReportError].
func (s *search) undecided(err error) error {
	err = route.Together(append(s.obstacles, err)...)
	if s.foreign != nil {
		err = errors.Join(err, foreignReportError{s.foreign})
	}
	return err
}

// foreignReportError quotes a node about a session that another node may know. It wraps neither [session.ErrExpired]
// nor [session.ErrMoved]: otherwise a caller would conclude that a session on a silent node has ended.
type foreignReportError struct{ said error }

func (e foreignReportError) Error() string { return e.said.Error() }

// NotHome reports whether err is a node's answer that the session is, or was, another node's.
func NotHome(err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	return errors.Is(err, session.ErrMoved) || ok && expired.LocalTo != 0
}
