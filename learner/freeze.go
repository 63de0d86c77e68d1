package learner

import (
	"context"

	"holdfast/session"
)

// Freeze stops all expiry in the cluster for a time, or ends such a time (Y3 freeze). It returns once this node has
// applied the entry.
func (s *Server) Freeze(ctx context.Context, r session.FreezeRequest) (uint64, error) {
	return operate(ctx, s, session.Request{Freeze: &r}, 0)
}

// Extend keeps a silent session alive for a time (Y4 extension). A local session lives by its touches alone.
func (s *Server) Extend(ctx context.Context, r session.ExtendRequest) (uint64, error) {
	if s.local.Has(r.ID) {
		return 0, &session.FieldError{Field: "session_id", Limit: "a global session: this one is local to the node"}
	}
	return operate(ctx, s, session.Request{Extend: &r}, r.ID)
}

// operate sends an operator's request to the leader, and returns the index of the entry once this node has applied it.
// id is the session in question, 0 for none.
func operate(ctx context.Context, s *Server, r session.Request, id session.ID) (uint64, error) {
	reply, err := s.upstream.ask(ctx, r)
	if err != nil {
		return 0, s.registry.explain(ctx, reply, err, session.Token{ID: id, Local: true})
	}
	return reply.Index, s.wait.index(ctx, reply.Index)
}
