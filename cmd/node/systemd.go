package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"
)

// feedsPerLimit is how often systemd's watchdog is fed within its limit.
const feedsPerLimit = 4

// notifySystemd notifies systemd that the node is ready, that it stops when stopping begins, and, as often as systemd
// requires, that the node has not stalled. It returns when ended does. Without systemd it does nothing.
//
// A node whose disk hangs is not fed. It has stepped out of its cluster, and when the disk does not recover within the
// limit, systemd restarts the node. A node that has stepped out for good, because its state differs, is fed: a restart
// would find the same, and hide what the operator should see.
func notifySystemd(stopping, ended context.Context, stalled func() bool, logger hclog.Logger) {
	tell := func(state string) bool {
		sent, err := daemon.SdNotify(false, state)
		if err != nil {
			logger.Warn("telling systemd", "error", err)
		}
		return sent
	}
	if !tell(daemon.SdNotifyReady) {
		return
	}
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		logger.Warn("systemd's watchdog is not fed", "error", err)
	}
	var feeds <-chan time.Time
	if limit > 0 {
		ticker := time.NewTicker(limit / feedsPerLimit)
		defer ticker.Stop()
		feeds = ticker.C
	}
	stops := stopping.Done()
	for {
		select {
		case <-feeds:
			if !stalled() {
				tell(daemon.SdNotifyWatchdog)
			}
		case <-stops:
			tell(daemon.SdNotifyStopping)
			stops = nil
		case <-ended.Done():
			return
		}
	}
}
