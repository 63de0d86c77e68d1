package fsm

import (
	"fmt"

	"holdfast/session"
)

// lacking is a feature level that a state does not know (W8), see [Config.Lacks].
type lacking uint32

// level returns an error unless the state knows a feature level.
func (l lacking) level(level uint32) error {
	if l != 0 && level >= uint32(l) {
		return outOfRange("level", fmt.Sprintf("at most %d, which this release has", l-1))
	}
	return nil
}

// commands returns an error unless the state knows what an entry's commands bring.
func (l lacking) commands(all []session.Command) error {
	if l == 0 {
		return nil
	}
	for _, c := range all {
		switch c := c.(type) {
		case session.Configure:
			if err := l.level(c.Level); err != nil {
				return fmt.Errorf("configure: %w", err)
			}
		case session.CloseSessions:
			if l <= session.AdminLevel && tells(&c) {
				return fmt.Errorf("close_sessions: what comes with level %d: %w", session.AdminLevel, errUnknown)
			}
		case session.FreezeExpiry, session.ThawExpiry, session.ExtendSession:
			if l <= session.AdminLevel {
				return fmt.Errorf("%T: what comes with level %d: %w", c, session.AdminLevel, errUnknown)
			}
		}
	}
	return nil
}

// tells reports whether c has what a release below [session.AdminLevel] does not read.
func tells(c *session.CloseSessions) bool {
	for i := range c.Sessions {
		if one := &c.Sessions[i]; one.Late != 0 || one.Credit != 0 || one.Silent != 0 {
			return true
		}
	}
	return c.Cause == session.CauseKilled || c.By != "" || c.Why != ""
}
