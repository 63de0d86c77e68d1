package config

import "slices"

// comparedSettings are the names of settings that should be the same on every node, though nodes whose values differ
// speak to each other: the node that leads uses its own, so that a setting can be changed with one restart after the
// other. docs/configuration.md says what each costs meanwhile. Those that nodes refuse each other for are in
// clusterSettings.
func comparedSettings() []string {
	return []string{
		"tick", "heartbeat_interval", "min_timeout", "max_timeout", "expiry_interval",
		"raft_heartbeat_timeout", "raft_election_timeout", "raft_lease_timeout", "stall_limit",
	}
}

// Compared are this node's values of comparedSettings.
func (c Config) Compared() map[string]string {
	values := map[string]string{}
	for _, s := range settings() {
		if slices.Contains(comparedSettings(), s.name) {
			values[s.name] = s.value(&c).String()
		}
	}
	return values
}
