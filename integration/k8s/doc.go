// Package k8s tests sage as a Kubernetes node has it: a real API server, kubelet
// and containerd run pods whose RuntimeClass is sage, in the guest of
// integration/vm. It is no conformance test: what sage does not touch is taken
// to work.
package k8s
