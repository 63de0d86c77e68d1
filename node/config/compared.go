package config

import (
	"slices"

	"holdfast/transport/raftnet"
)

// comparedSettings are the names of the settings that should be the same on every node, though nodes with different
// values speak to each other. The leader uses its own values, so that an operator can change a setting by restarting
// one node after the other. docs/configuration.md says what a difference costs meanwhile.
func comparedSettings() []string {
	return []string{
		"heartbeat_interval", "min_timeout", "max_timeout", "raft_heartbeat_timeout", "stall_timeout",
	}
}

// Compared returns this node's values of the settings that nodes compare and warn about, by name.
func (c Config) Compared() map[string]string {
	values := map[string]string{}
	for _, s := range settings() {
		if slices.Contains(comparedSettings(), s.name) {
			values[s.name] = s.value(&c).String()
		}
	}
	return values
}

// ClusterSettings returns the settings that must be the same on every node: nodes with different values refuse each
// other.
func (c Config) ClusterSettings() []raftnet.Setting {
	var all []raftnet.Setting
	for _, s := range localSettings() {
		all = append(all, raftnet.Setting{Name: s.name, Value: s.value(&c).String(), Default: s.def})
	}
	return all
}
