package guard

import "testing"

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		if _, err := Build(Options{BridgePort: 3128, Loopback: true, Transparent: true}, true); err != nil {
			b.Fatal(err)
		}
	}
}
