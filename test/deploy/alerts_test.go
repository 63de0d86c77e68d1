package deploy

import (
	"context"
	"fmt"
	"log/slog" //nolint:depguard // the rules of Prometheus want one
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// Rules are evaluated every 15 seconds. In each case the fault begins after 5 minutes.
const (
	step   = 15 * time.Second
	before = 20 // steps
)

// healthy has the series of three nodes that do well, in the notation of promqltest: n1 leads, all counters of trouble
// stand still, though some not at 0: they count what was long ago.
var healthy = map[string]string{
	`up{job="holdfast",instance="n1"}`:  `1x400`,
	`up{job="holdfast",instance="n2"}`:  `1x400`,
	`up{job="holdfast",instance="n3"}`:  `1x400`,
	`holdfast_ready{instance="n1"}`:     `1x400`,
	`holdfast_ready{instance="n2"}`:     `1x400`,
	`holdfast_is_leader{instance="n1"}`: `1x400`,
	`holdfast_is_leader{instance="n2"}`: `0x400`,
	// Another cluster has a job of its own, a leader of its own and a longer log.
	`holdfast_is_leader{job="holdfast-b",instance="m1"}`:         `1x400`,
	`holdfast_raft_commit_index{job="holdfast-b",instance="m1"}`: `900000+300x400`,
	`holdfast_applied_index{job="holdfast-b",instance="m1"}`:     `900000+300x400`,
	`holdfast_raft_term{instance="n1"}`:                          `7x400`,
	`holdfast_term_members_lost{instance="n1"}`:                  `0x400`,
	`holdfast_node_stalled{instance="n2"}`:                       `0x400`,
	`holdfast_node_stalls_total{instance="n2"}`:                  `3x400`,
	`holdfast_leader_credited_seconds_total{instance="n1"}`:      `4.5x400`,

	`holdfast_expiry_lateness_seconds_bucket{instance="n1",le="1"}`:    `0+5x400`,
	`holdfast_expiry_lateness_seconds_bucket{instance="n1",le="8"}`:    `0+5x400`,
	`holdfast_expiry_lateness_seconds_bucket{instance="n1",le="32"}`:   `0+5x400`,
	`holdfast_expiry_lateness_seconds_bucket{instance="n1",le="+Inf"}`: `0+5x400`,
	// Some are due at each moment, and expire.
	`holdfast_term_sessions_due{instance="n1"}`:                              `2x400`,
	`holdfast_sessions_expired_total{instance="n1"}`:                         `0+5x400`,
	`holdfast_state_differs{instance="n2"}`:                                  `0x400`,
	`holdfast_state_without_quorum{instance="n1"}`:                           `0x400`,
	`holdfast_data_dir_older_copy{instance="n2"}`:                            `0x400`,
	`holdfast_state_corruptions_total{instance="n2"}`:                        `0x400`,
	`holdfast_raft_commit_index{instance="n1"}`:                              `5000+300x400`,
	`holdfast_applied_index{instance="n1"}`:                                  `5000+300x400`,
	`holdfast_applied_index{instance="n2"}`:                                  `4700+300x400`,
	`holdfast_sessions{instance="n1"}`:                                       `700x400`,
	`holdfast_sessions_limit{instance="n1"}`:                                 `1000x400`,
	`holdfast_state_bytes{instance="n1"}`:                                    `700x400`,
	`holdfast_state_limit_bytes{instance="n1"}`:                              `0x400`,
	`holdfast_tree_bytes{instance="n1"}`:                                     `700x400`,
	`holdfast_tree_limit_bytes{instance="n1"}`:                               `1000x400`,
	`holdfast_leader_opens_refused_total{instance="n1"}`:                     `9x400`,
	`holdfast_client_opens_refused_total{instance="n1",limit="node"}`:        `0+1x400`,
	`holdfast_client_touches_refused_total{instance="n1",limit="node"}`:      `9x400`,
	`holdfast_log_sync_seconds_bucket{instance="n2",le="0.1"}`:               `0+50x400`,
	`holdfast_log_sync_seconds_bucket{instance="n2",le="1"}`:                 `0+50x400`,
	`holdfast_log_sync_seconds_bucket{instance="n2",le="+Inf"}`:              `0+50x400`,
	`holdfast_commit_seconds_bucket{instance="n1",le="0.1"}`:                 `0+50x400`,
	`holdfast_commit_seconds_bucket{instance="n1",le="2"}`:                   `0+50x400`,
	`holdfast_commit_seconds_bucket{instance="n1",le="+Inf"}`:                `0+50x400`,
	`holdfast_round_trip_seconds_bucket{instance="n1",member="2",le="0.1"}`:  `0+50x400`,
	`holdfast_round_trip_seconds_bucket{instance="n1",member="2",le="1"}`:    `0+50x400`,
	`holdfast_round_trip_seconds_bucket{instance="n1",member="2",le="+Inf"}`: `0+50x400`,
	`holdfast_settings_differ{instance="n1"}`:                                `0x400`,
	`holdfast_freeze_remaining_seconds{instance="n1"}`:                       `0x400`,
	`holdfast_client_panics_total{instance="n1"}`:                            `2x400`,
	`holdfast_auth_file_invalid{instance="n1"}`:                              `0x400`,
	`holdfast_tls_reload_failures_total{instance="n1"}`:                      `2x400`,
	`holdfast_tls_certificate_expires_timestamp_seconds{instance="n1"}`:      `1300000x400`,
	`holdfast_tls_certificate_expires_timestamp_seconds{instance="n2"}`:      `0x400`, // speaks without TLS
	`holdfast_tls_ca_expires_timestamp_seconds{instance="n1"}`:               `5300000x400`,
	`holdfast_tls_ca_expires_timestamp_seconds{instance="n2"}`:               `0x400`,
	`holdfast_disk_free_bytes{instance="n2"}`:                                `900x400`,
	`holdfast_disk_reserve_bytes{instance="n2"}`:                             `400x400`,
	`holdfast_refusing_requests{instance="n2",reason="disk"}`:                `0x400`,
	`holdfast_refusing_requests{instance="n2",reason="memory"}`:              `0x400`,
	`holdfast_client_slow_readers_total{instance="n1"}`:                      `2x400`,
	`holdfast_client_connections_closed_total{instance="n1"}`:                `2x400`,
}

// fault is what changes when something goes wrong, and the alert that must say so.
type fault struct {
	alert string
	// series replace those of a healthy cluster. Each has 20 values of a healthy one, which is 5 minutes.
	series map[string]string
	// after is when the alert fires at the latest, from the fault on.
	after time.Duration
}

var faults = map[string]fault{
	"a node is gone": {"HoldfastNodeDown", one(
		`up{job="holdfast",instance="n3"}`, `1x19 0x400`,
	), time.Minute},
	"a node does not serve": {"HoldfastNodeNotReady", one(
		`holdfast_ready{instance="n2"}`, `1x19 0x400`,
	), time.Minute},
	"no leader": {"HoldfastNoLeader", one(
		`holdfast_is_leader{instance="n1"}`, `1x19 0x400`,
	), time.Minute},
	"two leaders": {"HoldfastTwoLeaders", one(
		`holdfast_is_leader{instance="n2"}`, `0x19 1x400`,
	), time.Minute},
	"an election every minute": {"HoldfastElections", one(
		`holdfast_raft_term{instance="n1"}`, `7x19 8x3 9x3 10x3 11x3 12x400`,
	), 6 * time.Minute},
	"a member is lost": {"HoldfastMemberLost", one(
		`holdfast_term_members_lost{instance="n1"}`, `0x19 1x400`,
	), time.Minute},
	"a node has stepped out": {"HoldfastNodeStalled", one(
		`holdfast_node_stalled{instance="n2"}`, `0x19 1x400`,
	), time.Minute},
	"a node steps out for a moment": {"HoldfastNodeStalled", one(
		`holdfast_node_stalls_total{instance="n2"}`, `3x19 4x400`,
	), time.Minute},
	"a leader without a quorum": {"HoldfastTimeCredited", one(
		`holdfast_leader_credited_seconds_total{instance="n1"}`, `4.5x19 12x400`,
	), time.Minute},
	"nothing that is due expires": {"HoldfastExpiryLate", one(
		`holdfast_sessions_expired_total{instance="n1"}`, `0+5x19 95x400`,
	), 4 * time.Minute},
	"the state of one differs": {"HoldfastStatesDiffer", one(
		`holdfast_state_differs{instance="n2"}`, `0x19 1x400`,
	), time.Minute},
	"the states of two differ": {"HoldfastStatesDiffer", one(
		`holdfast_state_without_quorum{instance="n1"}`, `0x19 1x400`,
	), time.Minute},
	"a state is damaged": {"HoldfastStatesDiffer", one(
		`holdfast_state_corruptions_total{instance="n2"}`, `0x19 1x400`,
	), time.Minute},
	"an older copy was put back": {"HoldfastOlderCopy", one(
		`holdfast_data_dir_older_copy{instance="n2"}`, `0x19 1x400`,
	), time.Minute},
	"a follower stands still": {"HoldfastNodeBehind", one(
		`holdfast_applied_index{instance="n2"}`, `4700+300x19 10400x400`,
	), 3 * time.Minute},
	"many sessions": {"HoldfastSessionsNearLimit", one(
		`holdfast_sessions{instance="n1"}`, `700x19 900x400`,
	), 6 * time.Minute},
	"a large state": {"HoldfastSessionsNearLimit", one(
		`holdfast_state_limit_bytes{instance="n1"}`, `0x19 800x400`,
	), 6 * time.Minute},
	"a large tree": {"HoldfastTreeNearLimit", one(
		`holdfast_tree_bytes{instance="n1"}`, `700x19 900x400`,
	), 6 * time.Minute},
	"opens are refused: full": {"HoldfastOpensRefused", one(
		`holdfast_leader_opens_refused_total{instance="n1"}`, `9x19 9+5x400`,
	), 7 * time.Minute},
	"opens are refused: too many": {"HoldfastOpensRefused", one(
		`holdfast_client_opens_refused_total{instance="n1",limit="node"}`, `0+1x19 20+100x400`,
	), 7 * time.Minute},
	"a disk fills": {"HoldfastDiskNearlyFull", one(
		`holdfast_disk_free_bytes{instance="n2"}`, `900x19 700x400`,
	), 6 * time.Minute},
	"a disk is full": {"HoldfastDiskFull", one(
		`holdfast_refusing_requests{instance="n2",reason="disk"}`, `0x19 1x400`,
	), 2 * time.Minute},
	"memory runs out": {"HoldfastMemoryExhausted", one(
		`holdfast_refusing_requests{instance="n2",reason="memory"}`, `0x19 1x400`,
	), 2 * time.Minute},
	"touches are refused": {"HoldfastTouchesRefused", one(
		`holdfast_client_touches_refused_total{instance="n1",limit="node"}`, `9x19 10+1x400`,
	), time.Minute},
	"expiries come late": {"HoldfastExpiryLate", one(
		`holdfast_expiry_lateness_seconds_bucket{instance="n1",le="8"}`, `0+5x19 95x400`,
		`holdfast_expiry_lateness_seconds_bucket{instance="n1",le="1"}`, `0+5x19 95x400`,
	), 7 * time.Minute},
	"writes to a log are slow": {"HoldfastDiskSlow", one(
		`holdfast_log_sync_seconds_bucket{instance="n2",le="0.1"}`, `0+50x19 950+40x400`,
	), 11 * time.Minute},
	"commits are slow": {"HoldfastCommitsSlow", one(
		`holdfast_commit_seconds_bucket{instance="n1",le="0.1"}`, `0+50x19 950+20x400`,
	), 11 * time.Minute},
	"a member answers slowly": {"HoldfastMemberSlow", one(
		`holdfast_round_trip_seconds_bucket{instance="n1",member="2",le="0.1"}`, `0+50x19 950+20x400`,
	), 11 * time.Minute},
	"a freeze that nobody ends": {"HoldfastFrozen", one(
		`holdfast_freeze_remaining_seconds{instance="n1"}`, `0x19 86400-15x400`,
	), 62 * time.Minute},
	"settings differ": {"HoldfastSettingsDiffer", one(
		`holdfast_settings_differ{instance="n1"}`, `0x19 1x400`,
	), 62 * time.Minute},
	"a certificate expires": {"HoldfastCertificateExpires", one( // 14 days are 1,209,600 s
		`holdfast_tls_certificate_expires_timestamp_seconds{instance="n1"}`, `1300000x19 1200000x400`,
	), 6 * time.Minute},
	"a certificate has expired": {"HoldfastCertificateExpires", one(
		`holdfast_tls_certificate_expires_timestamp_seconds{instance="n1"}`, `1300000x19 1x400`,
	), 6 * time.Minute},
	"a CA expires": {"HoldfastCAExpires", one( // 60 days are 5,184,000 s
		`holdfast_tls_ca_expires_timestamp_seconds{instance="n1"}`, `5300000x19 5180000x400`,
	), 6 * time.Minute},
	"an auth_file is invalid": {"HoldfastFilesInvalid", one(
		`holdfast_auth_file_invalid{instance="n1"}`, `0x19 1x400`,
	), 2 * time.Minute},
	"TLS files do not fit": {"HoldfastFilesInvalid", one(
		`holdfast_tls_reload_failures_total{instance="n1"}`, `2x19 3x400`,
	), 2 * time.Minute},
	"a handler panics": {"HoldfastPanics", one(
		`holdfast_client_panics_total{instance="n1"}`, `2x19 3x400`,
	), time.Minute},
	"clients that do not read": {"HoldfastSlowReaders", one(
		`holdfast_client_slow_readers_total{instance="n1"}`, `2x19 3+1x400`,
	), 12 * time.Minute},
	"clients whose connections fill": {"HoldfastSlowReaders", one(
		`holdfast_client_connections_closed_total{instance="n1"}`, `2x19 3+1x400`,
	), 12 * time.Minute},
}

// one returns series and their values, which are given in turn.
func one(pairs ...string) map[string]string {
	all := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

// firing evaluates the rules on series for some steps, and returns the alerts that fired at each.
func firing(t *testing.T, series map[string]string, steps int) (at []map[string]bool) {
	t.Helper()
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", step)
	for _, name := range slices.Sorted(maps.Keys(series)) {
		fmt.Fprintf(&load, "  %s %s\n", name, series[name])
	}
	storage := promqltest.LoadedStorage(t, load.String())
	t.Cleanup(func() { storage.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), AppendableV2: storage, Queryable: storage, Logger: slog.New(slog.DiscardHandler),
		QueryFunc:  rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, 1_000_000), storage),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Parser:     parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, alertsFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for i := range steps {
		now := time.Unix(0, 0).Add(time.Duration(i) * step)
		fired := make(map[string]bool)
		for _, g := range groups {
			g.Eval(t.Context(), now)
			for _, r := range g.AlertingRules() {
				if r.LastError() != nil {
					t.Fatalf("%s: %v", r.Name(), r.LastError())
				}
				for _, a := range r.ActiveAlerts() {
					if a.State == rules.StateFiring {
						fired[r.Name()] = true
					}
				}
			}
		}
		at = append(at, fired)
	}
	return at
}

// Each alert is silent while the cluster is healthy, fires when its fault has lasted for as long as it says, and stays
// silent about the faults of others.
func TestAlertsFire(t *testing.T) {
	for i, fired := range firing(t, healthy, 290) {
		if len(fired) > 0 {
			t.Fatalf("healthy nodes, after %v: %v", time.Duration(i)*step, fired)
		}
	}
	tested := make(map[string]bool)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			series := maps.Clone(healthy)
			for one, values := range f.series {
				if _, ok := healthy[one]; !ok {
					t.Fatalf("a healthy cluster has no series %s", one)
				}
				series[one] = values
			}
			first := -1
			for i, fired := range firing(t, series, before+int(f.after/step)+1) {
				if fired[f.alert] && first < 0 {
					first = i
				}
				delete(fired, f.alert)
				if len(fired) > 0 {
					t.Fatalf("after %v also: %v", time.Duration(i)*step, fired)
				}
			}
			if first < before {
				t.Errorf("%s fired first at step %d, where -1 is never; the fault began at %d", f.alert, first, before)
			}
		})
		tested[f.alert] = true
	}
	for _, name := range described(t) {
		if !tested[name] {
			t.Errorf("no fault makes %s fire: add one", name)
		}
	}
}
