package leader

import (
	"time"

	"holdfast/session"
)

// timed notes the timeout of a session that the tracker comes to know. It is called for every one, before its shard is
// locked, and takes no lock unless the timeout changes something.
func (t *Tracker) timed(timeout time.Duration) {
	for {
		longest := t.longest.Load()
		if int64(timeout) <= longest || t.longest.CompareAndSwap(longest, int64(timeout)) {
			break
		}
	}
	if timeout <= 3*time.Duration(t.interval.Load()) {
		t.quicken(timeout)
	}
}

// roundsPerTimeout is how many rounds begin within the smallest timeout when all settings are the default ones.
const roundsPerTimeout = 8

// quicken has rounds begin as often within a timeout as the default settings have them in theirs: a node is lost after
// three intervals, and a promise is of a touch that is as old (R1, E1, S3). Each configuration sees to more than three
// within the timeouts of sessions that are opened under it. What is left are sessions of former leaders with other
// settings, and local ones of nodes with other settings.
func (t *Tracker) quicken(timeout time.Duration) {
	interval := max(timeout/roundsPerTimeout, session.MinInterval)
	t.mu.Lock()
	shorter := interval < t.rounds.interval
	if shorter {
		t.rounds.interval = interval
		t.interval.Store(int64(interval))
		t.regular = min(t.regular, t.mono()+interval)
	}
	t.mu.Unlock()
	if shorter {
		t.wake()
		t.logger.Warn("rounds are more frequent than heartbeat_interval in this term, for a session with a short "+
			"timeout",
			"interval", interval, "heartbeat_interval", t.cfg.Interval, "timeout", timeout, "term", t.cfg.Term)
	}
}
