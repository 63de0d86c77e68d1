package fsm

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"holdfast/session"
	"holdfast/tree/form"
)

// check returns a [session.FieldError] when a field of c is out of range. Both writing and reading an entry call it, so
// no node writes an entry that it cannot read.
func check(c session.Command) error {
	switch c := c.(type) {
	case session.OpenSession:
		return checkOpen(c)
	case session.MoveSession:
		return checkMove(c)
	case session.MoveSessions:
		return checkMoves(c)
	case session.CloseSessions:
		return checkClose(c)
	case session.UpgradeSession:
		return checkUpgrade(c)
	case session.ClaimIDs:
		return checkClaim(c)
	case session.SetCapacity:
		return checkCapacity(c.Capacity)
	case session.Configure:
		return checkConfigure(c)
	case session.FreezeExpiry:
		return checkFreeze(c)
	case session.ExtendSession:
		return checkExtend(c)
	case session.ForgetRequests, session.ThawExpiry:
		return nil
	default:
		if t, ok := treeForm(c); ok {
			return checkTreeCommand(t)
		}
		return fmt.Errorf("unknown command %T", c)
	}
}

const (
	msLimit      = "0 to 2^40 - 1 milliseconds since 2026-01-01 UTC"
	timeoutLimit = "whole milliseconds, 1 ms to 24h"
)

func checkOpen(c session.OpenSession) error {
	switch {
	case !c.Node.Valid():
		return outOfRange("node", "1 to 254")
	case c.MS > session.MaxMS:
		return outOfRange("ms", msLimit)
	case c.Timeout <= 0 || c.Timeout > session.MaxTimeout || c.Timeout%time.Millisecond != 0:
		return outOfRange("timeout", timeoutLimit)
	case c.RequestID == session.RequestID{}:
		// All clients that forget to set a request id would share a session.
		return outOfRange("request_id", "16 bytes that are not all zero")
	}
	return c.Labels.Check()
}

func checkMove(c session.MoveSession) error {
	switch {
	case c.ID == 0:
		return outOfRange("session_id", "not zero")
	case !c.NewOwner.Valid():
		return outOfRange("owner", "1 to 254")
	case c.Attempt == 0:
		return outOfRange("attempt", "1 or more")
	case c.Named == 0:
		return outOfRange("named", "not zero")
	}
	return nil
}

func checkMoves(c session.MoveSessions) error {
	switch {
	case !c.NewOwner.Valid():
		return outOfRange("owner", "1 to 254")
	case len(c.Sessions) == 0 || len(c.Sessions) > session.MaxBatch:
		return outOfRange("sessions", fmt.Sprintf("1 to %d", session.MaxBatch))
	}
	for _, s := range c.Sessions {
		switch {
		case s.ID == 0:
			return outOfRange("session_id", "not zero")
		case s.Attempt == 0:
			return outOfRange("attempt", "1 or more")
		case s.Named == 0:
			return outOfRange("named", "not zero")
		}
	}
	return nil
}

func checkClose(c session.CloseSessions) error {
	switch {
	case c.Cause != session.CauseClosed && c.Cause != session.CauseExpired && c.Cause != session.CauseKilled:
		return outOfRange("cause", causes)
	case c.Credited < 0:
		return outOfRange("credited", "not negative")
	case len(c.Sessions) == 0 || len(c.Sessions) > session.MaxCloseBatch:
		return outOfRange("sessions", fmt.Sprintf("1 to %d", session.MaxCloseBatch))
	}
	for _, s := range c.Sessions {
		if s.ID == 0 {
			return outOfRange("session_id", "not zero")
		}
	}
	return checkAct(c.By, c.Why)
}

// checkAct checks who acted and why.
func checkAct(by, why string) error {
	switch {
	case len(by) > session.MaxPrincipal || !utf8.ValidString(by):
		return outOfRange("by", fmt.Sprintf("at most %d bytes of UTF-8", session.MaxPrincipal))
	case len(why) > session.MaxWhy || !utf8.ValidString(why):
		return outOfRange("why", fmt.Sprintf("at most %d bytes of UTF-8", session.MaxWhy))
	}
	return nil
}

func checkUpgrade(c session.UpgradeSession) error {
	switch {
	case !c.ID.Node().Valid():
		return outOfRange("session_id", "an id of a node, 1 to 254")
	case c.MS > session.MaxMS:
		return outOfRange("ms", msLimit)
	case c.Timeout <= 0 || c.Timeout > session.MaxTimeout || c.Timeout%time.Millisecond != 0:
		return outOfRange("timeout", timeoutLimit)
	}
	return c.Labels.Check()
}

func checkClaim(c session.ClaimIDs) error {
	switch {
	case !c.Node.Valid():
		return outOfRange("node", "1 to 254")
	case c.MS > session.MaxMS:
		return outOfRange("ms", msLimit)
	}
	return session.CheckClaim(c.Count)
}

func checkCapacity(c session.Capacity) error {
	switch {
	case c.MaxSessions == 0 || c.MaxSessions > session.MaxCapacitySessions:
		return outOfRange("max_sessions", fmt.Sprintf("1 to %d", session.MaxCapacitySessions))
	case c.MaxBytes < session.MinCapacityBytes || c.MaxBytes > session.MaxCapacityBytes:
		limit := fmt.Sprintf("%d to %d", session.MinCapacityBytes, session.MaxCapacityBytes)
		return outOfRange("max_state_bytes", limit)
	}
	return nil
}

func checkConfigure(c session.Configure) error {
	if c.Level == 0 {
		return outOfRange("level", "not zero")
	}
	return cmp.Or(checkLevel(c.Level), c.Limits.Check())
}

// checkLevel refuses a feature level that this program does not know (W8).
func checkLevel(level uint32) error {
	if level > session.FeatureLevel {
		return fmt.Errorf("the cluster has feature level %d, and this program knows levels up to %d", level, session.FeatureLevel)
	}
	return nil
}

func checkTreeCommand(c session.TreeCommand) error {
	switch {
	case form.KindOf(c.Encoded) == form.Other:
		return outOfRange("command", "one of the tree's")
	case len(c.Encoded) > session.MaxCommandBytes:
		return outOfRange("command", fmt.Sprintf("at most %d bytes", session.MaxCommandBytes))
	}
	return nil
}

func outOfRange(field, limit string) error { return &session.FieldError{Field: field, Limit: limit} }
