//go:build kernel && !vm

package setup

// whole: a host may lack what hard limits need, and then only the parts that
// need neither are run.
const whole = false
