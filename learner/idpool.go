package learner

import (
	"context"
	"errors"
	"time"

	"holdfast/session"
)

// nextID takes the next id that was claimed, false when there is none. Called with mu held.
func (l *Local) nextID() (session.ID, bool) {
	for len(l.blocks) > 0 {
		b := &l.blocks[0]
		if b.left == 0 {
			l.blocks = l.blocks[1:]
			continue
		}
		b.left--
		b.next++
		return b.next - 1, true
	}
	return 0, false
}

// supply adds a block that was claimed. Blocks come in their order, one claim after the other.
func (l *Local) supply(first session.ID, count uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocks = append(l.blocks, block{first, uint64(count)})
}

// poolSize returns how many ids are left.
func (l *Local) poolSize() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := uint64(0)
	for _, b := range l.blocks {
		left += b.left
	}
	return left
}

// lowPool is how many ids are left when more are claimed: half of what one claim brings.
const lowPool = session.MaxClaim / 2

// refill keeps ids in stock until ctx ends, so that an open of a local session waits for nobody (L2). One claim is
// under way at a time; one that failed is tried again after an interval.
func (s *Server) refill(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.Interval)
	defer ticker.Stop()
	for {
		if s.local.poolSize() < lowPool {
			first, err := s.AllocateIDs(ctx,
				session.ClaimRequest{MS: session.MS(s.cfg.Clock()), Count: session.MaxClaim})
			if err == nil {
				s.local.supply(first, session.MaxClaim)
				s.supplied.tell()
				continue
			}
			s.noteClaim(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.low:
		case <-ticker.C:
		}
	}
}

// noteClaim remembers why ids could not be claimed, when that is for a person to mend.
func (s *Server) noteClaim(err error) {
	final := errors.Is(err, session.ErrIDsUsedUp) || errors.Is(err, session.ErrInvalid)
	if !final {
		err = nil
	}
	s.mu.Lock()
	news := err != nil && s.noIDs == nil
	s.noIDs = err
	s.mu.Unlock()
	if news {
		s.cfg.Logger.Error("no ids for local sessions", "error", err)
	}
}

// openLocalSoon opens a local session as soon as there is an id for it: at once, as a rule. After a bounded wait it is
// refused: session.ErrNoLeader, or why no ids can be claimed.
func (s *Server) openLocalSoon(ctx context.Context, o opening) (*local, error) {
	timer := time.NewTimer(s.cfg.LaggingWait)
	defer timer.Stop()
	for {
		supplied := s.supplied.wait()
		made, err := s.local.open(o, s.look())
		if made != nil || err != nil {
			if s.local.poolSize() < lowPool {
				notify(s.low)
			}
			return made, err
		}
		notify(s.low)
		select {
		case <-supplied:
		case <-timer.C:
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.noIDs != nil {
				return nil, s.noIDs
			}
			return nil, session.ErrNoLeader
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
