package clientport

import (
	"context"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// treeServer serves TreeService. Its unary methods return domain errors, which the port's interceptor converts to
// statuses.
type treeServer struct {
	holdfastv1.UnimplementedTreeServiceServer
	node *sessionServer
}

// read serves a unary read.
func (s *treeServer) read(ctx context.Context, request proto.Message) (tree.Answer, error) {
	q, err := wire.UnaryQueryFrom(request)
	if err != nil {
		return tree.Answer{}, err
	}
	c, err := s.node.newTreeCall(ctx)
	if err != nil {
		return tree.Answer{}, err
	}
	defer c.end()
	s.node.stats.tree.reads.Add(1)
	return c.read(ctx, q, queuedBytes(request))
}

// Get returns an entry's data and stat.
func (s *treeServer) Get(ctx context.Context, req *holdfastv1.GetRequest) (*holdfastv1.GetResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := wire.GetProto(found)
	answer.Stamp, answer.State = uint64(found.Stamp), s.node.state()
	return answer, nil
}

// Exists returns an entry's stat, or that there is no entry.
func (s *treeServer) Exists(ctx context.Context, req *holdfastv1.ExistsRequest) (*holdfastv1.ExistsResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := wire.ExistsProto(found)
	answer.Stamp, answer.State = uint64(found.Stamp), s.node.state()
	return answer, nil
}

// List returns a page of an entry's children.
func (s *treeServer) List(ctx context.Context, req *holdfastv1.ListRequest) (*holdfastv1.ListResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := wire.ListProto(found)
	answer.Stamp, answer.State = uint64(found.Stamp), s.node.state()
	return answer, nil
}

// GetEphemerals returns a page of the paths of a session's ephemeral entries.
func (s *treeServer) GetEphemerals(ctx context.Context,
	req *holdfastv1.GetEphemeralsRequest,
) (*holdfastv1.GetEphemeralsResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.GetEphemeralsResponse{
		Paths: found.Paths, More: found.More, Stamp: uint64(found.Stamp), State: s.node.state(),
	}, nil
}

// GetACL returns the access list in force for an entry.
func (s *treeServer) GetACL(ctx context.Context, req *holdfastv1.GetACLRequest) (*holdfastv1.GetACLResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := wire.ACLProto(found)
	answer.Stamp, answer.State = uint64(found.Stamp), s.node.state()
	return answer, nil
}

// CheckFence returns whether a token is the present holder's of a lock (H1 fencing tokens).
func (s *treeServer) CheckFence(ctx context.Context,
	req *holdfastv1.CheckFenceRequest,
) (*holdfastv1.CheckFenceResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.CheckFenceResponse{
		Holds: found.Holds, Stamp: uint64(found.Stamp), State: s.node.state(),
	}, nil
}

// Sync returns once the node shows everything that was committed when the call began.
func (s *treeServer) Sync(ctx context.Context, req *holdfastv1.SyncRequest) (*holdfastv1.SyncResponse, error) {
	found, err := s.read(ctx, req)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.SyncResponse{Stamp: uint64(found.Stamp), State: s.node.state()}, nil
}

// write serves a unary write, which also touches its session.
func (s *treeServer) write(ctx context.Context, request proto.Message) (tree.Result, error) {
	c, err := s.node.newTreeCall(ctx)
	if err != nil {
		return tree.Result{}, err
	}
	defer c.end()
	token, w, err := wire.UnaryWriteFrom(request, c.principals)
	if err != nil {
		return tree.Result{}, err
	}
	if _, err = s.node.admit(ctx, ratelimit.Writes, 1); err != nil {
		return tree.Result{}, err
	}
	if token, err = c.adopt(ctx, token, s.node.cfg.TouchWait); err != nil {
		return tree.Result{}, err
	}
	w.Session, w.Attachment = uint64(token.ID), token.Attachment
	s.node.stats.tree.writes.Add(1)
	return c.write(ctx, w)
}

// operate serves a unary write with one operation, whose refusal is an error.
func (s *treeServer) operate(ctx context.Context, request proto.Message) (tree.OpOutcome, uint64, error) {
	result, err := s.write(ctx, request)
	if err != nil {
		return tree.OpOutcome{}, 0, err
	}
	if result.Void {
		return tree.OpOutcome{}, 0, errVoided()
	}
	o := result.Outcome
	switch {
	case o.Refused != nil:
		return tree.OpOutcome{}, 0, &tree.WriteError{Refused: o.Refused, At: o.At, Stamp: result.Stamp}
	case len(o.Ops) != 1:
		return tree.OpOutcome{}, 0, errAnother()
	}
	return o.Ops[0], uint64(result.Stamp), nil
}

// errVoided refuses a write whose number the client gave up before the write came (X6 giving up): the write has no
// effect and never will.
func errVoided() error {
	return &session.FieldError{Field: "numbering.number", Limit: "not one that the client has given up"}
}

// errAnother refuses a write that reuses the number of another write: the kept result belongs to the other (X2
// writers).
func errAnother() error {
	return &session.FieldError{Field: "numbering.number", Limit: "not that of another write"}
}

// Create makes an entry.
func (s *treeServer) Create(ctx context.Context, req *holdfastv1.CreateRequest) (*holdfastv1.CreateResponse, error) {
	done, stamp, err := s.operate(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case done.Path == "":
		return nil, errAnother()
	}
	return &holdfastv1.CreateResponse{
		Path: done.Path, Stat: wire.StatProto(done.Stat), Stamp: stamp, State: s.node.state(),
	}, nil
}

// Delete removes an entry without children.
func (s *treeServer) Delete(ctx context.Context, req *holdfastv1.DeleteRequest) (*holdfastv1.DeleteResponse, error) {
	_, stamp, err := s.operate(ctx, req)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.DeleteResponse{Stamp: stamp, State: s.node.state()}, nil
}

// DeleteTree removes an entry and all entries below.
func (s *treeServer) DeleteTree(ctx context.Context,
	req *holdfastv1.DeleteTreeRequest,
) (*holdfastv1.DeleteTreeResponse, error) {
	done, stamp, err := s.operate(ctx, req)
	if err != nil {
		return nil, err
	}
	return &holdfastv1.DeleteTreeResponse{Removed: uint32(done.Removed), Stamp: stamp, State: s.node.state()}, nil
}

// Set replaces an entry's data.
func (s *treeServer) Set(ctx context.Context, req *holdfastv1.SetRequest) (*holdfastv1.SetResponse, error) {
	done, stamp, err := s.operate(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case done.Stat.Kind == 0:
		return nil, errAnother()
	}
	return &holdfastv1.SetResponse{Stat: wire.StatProto(done.Stat), Stamp: stamp, State: s.node.state()}, nil
}

// SetACL replaces an entry's access list.
func (s *treeServer) SetACL(ctx context.Context, req *holdfastv1.SetACLRequest) (*holdfastv1.SetACLResponse, error) {
	done, stamp, err := s.operate(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case done.Stat.Kind == 0:
		return nil, errAnother()
	}
	return &holdfastv1.SetACLResponse{Stat: wire.StatProto(done.Stat), Stamp: stamp, State: s.node.state()}, nil
}

// Transact carries out several operations, all or none.
func (s *treeServer) Transact(ctx context.Context,
	req *holdfastv1.TransactRequest,
) (*holdfastv1.TransactResponse, error) {
	result, err := s.write(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case result.Void:
		return nil, errVoided()
	}
	return &holdfastv1.TransactResponse{
		Outcome: wire.OutcomeProto(result), Stamp: uint64(result.Stamp), State: s.node.state(),
	}, nil
}
