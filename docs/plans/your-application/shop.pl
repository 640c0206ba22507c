# A small shop: GET /price is the price of a basket. A process for each connection.
use strict;
use IO::Socket::INET;

$SIG{CHLD} = 'IGNORE';
my $port = IO::Socket::INET->new(LocalAddr => '0.0.0.0:8080', Listen => 128, ReuseAddr => 1) or die $!;
print "the shop is open\n";
while (my $client = $port->accept) {
    if (!fork) {
        while (my $line = <$client>) {
            next if $line !~ /^\r?$/;    # the end of a request
            my $price = 0;
            $price += ($_ * 7919 % 997) / 100 for 1 .. 2000;
            my $text = sprintf "%.2f\n", $price;
            syswrite $client, "HTTP/1.1 200 OK\r\nContent-Length: " . length($text) . "\r\n\r\n$text";
        }
        exit;
    }
    close $client;
}
