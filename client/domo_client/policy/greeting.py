"""What is seen of a coordinator before torch is loaded: is it the right one, does it let in."""

from domo.ops.addresses import grpc_address
from domo_client.flags import Flags
from domo_client.identity.choice import default_state, host_name
from domo_client.identity.greeting import see_let_in
from domo_client.policy.pins import see_coordinator
from domo_client.policy.policy import Chosen
from domo_proto.channel import TlsFiles


def greet(server: str, tls: TlsFiles, flags: Flags) -> None:
    """See that a coordinator is one that the policy names, and then that it lets this silo in.

    Args:
        server: host:port, as it was typed.
        tls: PEM files.
        flags: The operator's.

    Raises:
        ConfigError: A file cannot be read, or is missing.
        CertificateError: One keeps the two ends apart.
        AccessError: It is none that the policy names, or does not let this silo in.
    """
    name = flags.name or host_name()
    folder = flags.state_dir or default_state(name)
    policy = Chosen.of(flags.policy, folder, flags.shard is not None).policy
    see_coordinator(policy, grpc_address(server), tls)
    see_let_in(server, tls, name)
