package node

import (
	"testing"

	"holdfast/node/config"
	"holdfast/transport/gate"
	"holdfast/transport/port"
)

// Each setting is the budget that it names.
func TestSettingsOfTheGate(t *testing.T) {
	c := config.Gate{
		MaxOpensPerSecond: 1, MaxResumesPerSecond: 2,
		MaxArrivalsPerSecondPerAddress: 4, MaxArrivalsPerSecondPerPrincipal: 5,
	}
	want := gate.Config{
		Opens: 1, Resumes: 2, Touches: touchesPerSecond, ArrivalsPerAddress: 4, ArrivalsPerPrincipal: 5,
	}
	if got := gateConfig(c); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Each setting is the limit that it names.
func TestSettingsOfTheClientPort(t *testing.T) {
	c := config.Config{
		Clients: config.Clients{MaxMessageBytes: 1, MaxWaitingBytes: 6},
		Gate:    config.Gate{MaxConnectionsPerAddress: 4},
	}
	want := port.Limits{MessageBytes: 1, Connections: 3, ConnectionsPerAddress: 4, WaitingBytes: 6}
	if got := clientLimits(&c, 3); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Each refusal is counted under its kind, and the budget that was used up.
func TestMetricsOfTheGate(t *testing.T) {
	f := &figures{}
	want, next := map[string]float64{}, uint64(0)
	for k := range gate.Kinds {
		for s := range gate.Scopes {
			next++
			f.client.Refusals[k][s] = next
			if budget := gate.Budget(k, s); budget != "" {
				want["client_"+k.String()+"_refused_total "+budget] = float64(next)
			}
		}
	}
	for _, m := range gateMetrics() {
		name := m.name + " " + m.reason
		if got := m.read(f); got != want[name] {
			t.Errorf("%s is %v, want %v", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
}
