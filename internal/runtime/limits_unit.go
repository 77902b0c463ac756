package runtime

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/sage-sandbox/sage/quota/readback"
)

// unitPatience is for a systemd that reloads just now.
const unitPatience = 10 * time.Second

// unitProperties asks systemd what it believes to be the limits of a scope. Of a
// unit that is not there it gives what a new one would have, which is no limit.
func unitProperties(unit string) (readback.Properties, error) {
	ctx, cancel := context.WithTimeout(context.Background(), unitPatience) //nolint:forbidigo // nothing above has one to hand down
	defer cancel()
	conn, err := dbus.NewWithContext(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.GetUnitTypePropertiesContext(ctx, unit, "Scope")
}
