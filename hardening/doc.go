// Package hardening turns a bundle and a policy into the bundle that is run:
// every field is kept, tightened, dropped or refused, and every change is told.
// It looks at nothing itself, and it does not decide what the policy is.
package hardening
