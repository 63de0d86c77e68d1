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
		if c, ok := c.(session.Configure); ok {
			if err := l.level(c.Level); err != nil {
				return fmt.Errorf("configure: %w", err)
			}
		}
	}
	return nil
}
