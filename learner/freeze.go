package learner

import (
	"context"

	"holdfast/session"
)

// Freeze has nothing expire in the whole cluster for a time, or ends that time (Y3). The operator is told once this
// node has applied the entry.
func (s *Server) Freeze(ctx context.Context, r session.FreezeRequest) (uint64, error) {
	return operate(ctx, s, session.Request{Freeze: &r}, 0)
}

// Extend keeps a session for a time though it is silent (Y4). A local session lives by its touches alone.
func (s *Server) Extend(ctx context.Context, r session.ExtendRequest) (uint64, error) {
	if s.local.has(r.ID) {
		return 0, &session.FieldError{Field: "session_id", Limit: "a global session: this one is local to the node"}
	}
	return operate(ctx, s, session.Request{Extend: &r}, r.ID)
}

// operate has the leader do what an operator asks for, and returns the index of the entry once this node has applied
// it. id is the session that it is about, 0 for none.
func operate(ctx context.Context, s *Server, r session.Request, id session.ID) (uint64, error) {
	reply, err := s.upstream.ask(ctx, r)
	if err != nil {
		return 0, s.registry.explain(ctx, reply, err, session.Token{ID: id, Local: true})
	}
	return reply.Index, s.wait.index(ctx, reply.Index)
}
