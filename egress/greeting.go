package egress

// Greeting is the whole first message of a bridge to a proxy, by which each
// knows that the other is of its version. With it comes the descriptor of the
// stub resolver's UDP socket, where there is one. Every later message is an
// [Arrival] with one descriptor.
const Greeting = "sage-egress bridge 1\n"
