package fsm

import (
	"strconv"

	"holdfast/session"
)

// mayExpire reports whether a close for an expiry takes effect (Y3 freeze, Y4 extension).
func (s *step) mayExpire(id session.ID) bool {
	return s.treeState.time.Freeze == nil && s.treeState.extensions.until(id) <= s.treeState.time.Log
}

// applyOperator applies a command of an operator about expiry.
func (s *step) applyOperator(c session.Command) error {
	switch c := c.(type) {
	case session.FreezeExpiry:
		s.treeState.time.Freeze = &session.Freeze{
			Until: s.treeState.time.Running() + c.For, Since: session.TimeOfMS(c.MS), By: c.By, Why: c.Why,
		}
	case session.ThawExpiry:
		s.treeState.time.Freeze = nil
	case session.ExtendSession:
		return s.extend(c)
	}
	return nil
}

// extend protects a session from expiry for a time (Y4).
func (s *step) extend(c session.ExtendSession) error {
	if _, ok := s.session(c.ID); !ok {
		return s.expired(c.ID)
	}
	s.treeState.removePassedExtensions()
	if c.For == 0 {
		s.treeState.removeExtension(c.ID)
		return nil
	}
	if _, ok := s.treeState.extensions.find(c.ID); !ok && len(s.treeState.extensions.all) >= session.MaxExtended {
		return &session.LimitError{Name: "extended_sessions", Limit: strconv.Itoa(session.MaxExtended)}
	}
	s.treeState.extend(extension{c.ID, s.treeState.time.Log + c.For})
	return nil
}
