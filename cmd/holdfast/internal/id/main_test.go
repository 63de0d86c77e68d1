package id

import (
	"testing"

	"holdfast/cmd/holdfast/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, New) }
