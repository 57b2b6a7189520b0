#!/bin/sh
# Certificates for a trial of mutual TLS: a CA, the coordinator's, and one for each silo.
#
#   deploy/tls/make-certs.sh DIR COORDINATOR SILO...
#   deploy/tls/make-certs.sh certs coordinator.example.org hospital-north hospital-south
#
# COORDINATOR is the name or IP address that the silos dial; a SILO is the name of its --name.
# Call it again with more silos: the CA and certificates that exist are kept.
#
# In earnest, let `domo-server pki init` and `domo-client enroll` do this, or the PKI that you have,
# because here one folder holds every private key:
#   - each silo makes its own key, which never leaves it;
#   - the silo's name is in the subject alternative name (DNS) of its certificate, the coordinator's
#     dialled name in that of its own; extended key usage clientAuth and serverAuth;
#   - certificates are short-lived and renewed in time; domo reads the new files by itself.
# A certificate alone lets nobody in: domo-server admit SILO does, or the roster of a run. To shut a
# silo out: domo revoke SILO.
set -eu
umask 077

if [ $# -lt 3 ]; then
    sed -n '2,8p' "$0" | cut -c3- >&2
    exit 2
fi
dir=$1
coordinator=$2
shift 2
days=${DAYS:-90}
for silo in "$@"; do
    case $silo in
        '' | ca | coordinator | [!A-Za-z0-9]* | *[!A-Za-z0-9._-]*)
            echo "$silo is no name for a silo here: letters, digits, '.', '_', '-'" >&2
            exit 2
            ;;
    esac
done
mkdir -p "$dir"
cd "$dir"

new_key() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

# issue FILE COMMON_NAME SUBJECT_ALT_NAME EXTENDED_KEY_USAGE
issue() {
    if [ -e "$1.pem" ]; then
        echo "$1.pem is kept"
        return
    fi
    new_key "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$2" -out "$1.csr"
    {
        echo "basicConstraints = critical, CA:false"
        echo "keyUsage = critical, digitalSignature"
        echo "extendedKeyUsage = $4"
        echo "subjectAltName = $3"
        echo "subjectKeyIdentifier = hash"
        echo "authorityKeyIdentifier = keyid"
    } >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial \
        -days "$days" -sha256 -extfile "$1.ext" -out "$1.pem" 2>"$1.log" ||
        { cat "$1.log" >&2; exit 1; }
    rm "$1.csr" "$1.ext" "$1.log"
    echo "$1.pem, $1.key: $3"
}

if [ ! -e ca.pem ]; then
    new_key ca.key
    openssl req -x509 -new -key ca.key -sha256 -days "$days" -subj "/CN=domo trial CA" \
        -addext "keyUsage = critical, keyCertSign, cRLSign" -out ca.pem
    echo "ca.pem, ca.key: the CA; only ca.pem is handed out"
fi

case $coordinator in
    *:* | [0-9]*.[0-9]*.[0-9]*.[0-9]*) dialled="IP:$coordinator" ;;
    *) dialled="DNS:$coordinator" ;;
esac
# localhost: for the health check. clientAuth: that check shows this certificate.
issue coordinator "$coordinator" "$dialled, DNS:localhost, IP:127.0.0.1" "serverAuth, clientAuth"
for silo in "$@"; do
    issue "$silo" "$silo" "DNS:$silo" clientAuth
done
