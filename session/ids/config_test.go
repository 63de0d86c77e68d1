package ids_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/session/ids"
)

func TestSnowflakeConfigRefuses(t *testing.T) {
	at := ids.TwitterEpoch()
	for _, tt := range []struct {
		field string
		c     ids.SnowflakeConfig
	}{
		{"epoch", ids.SnowflakeConfig{Epoch: at.Add(1)}},
		{"datacenter", ids.SnowflakeConfig{Machine: ids.Machine{Datacenter: 32}}},
		{"worker", ids.SnowflakeConfig{Machine: ids.Machine{Worker: 32}}},
		{"policy", ids.SnowflakeConfig{Policy: 4}},
		{"spares", ids.SnowflakeConfig{Spares: []uint64{1}}},
		{"spares", ids.SnowflakeConfig{Policy: ids.SwitchWorker}},
		{"spares", ids.SnowflakeConfig{Policy: ids.SwitchWorker, Spares: []uint64{32}}},
		{"spares", ids.SnowflakeConfig{Policy: ids.SwitchWorker, Spares: []uint64{1, 1}}},
		{"spares", ids.SnowflakeConfig{Policy: ids.SwitchWorker, Spares: []uint64{0}}},
		{"rollback_bits", ids.SnowflakeConfig{RollbackBits: 1}},
		{"rollback_bits", ids.SnowflakeConfig{Policy: ids.RollbackBits}},
		{"rollback_bits", ids.SnowflakeConfig{Policy: ids.RollbackBits, RollbackBits: 9}},
		{"rollback_bits", ids.SnowflakeConfig{Policy: ids.RollbackBits, RollbackBits: -1}},
		{"not_before", ids.SnowflakeConfig{NotBefore: at.Add(-time.Second)}},
		{"not_before", ids.SnowflakeConfig{NotBefore: at.Add(ids.MaxSnowflakeMS * time.Millisecond)}},
	} {
		tt.c.Now = func() time.Time { return at }
		_, err := ids.NewSnowflake(tt.c)
		wantField(t, err, tt.field)
	}
	if _, err := ids.NewSnowflake(
		ids.SnowflakeConfig{Now: func() time.Time { return at.Add(-time.Millisecond) }},
	); !errors.Is(err, ids.ErrClockRange) {
		t.Errorf("before the epoch: %v", err)
	}
	for _, p := range ids.Policies() {
		if again, err := ids.ParsePolicy(p.String()); err != nil || again != p {
			t.Errorf("%v is read as %v, %v", p, again, err)
		}
	}
	_, err := ids.ParsePolicy("hope")
	wantField(t, err, "policy")
}
