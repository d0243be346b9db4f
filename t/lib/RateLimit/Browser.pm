package RateLimit::Browser;

# A headless Chromium with one page, driven by its DevTools protocol over a pipe:
# https://chromedevtools.github.io/devtools-protocol/. It remembers what went wrong on the page and
# what it asked for.

use v5.36;
use Fcntl qw(F_SETFD);
use File::Temp qw(tempdir);
use IO::Select;
use JSON::PP ();
use MIME::Base64 qw(decode_base64);
use RateLimit::Process;
use RateLimit::Wait qw(wait_until);

my @switches = qw(
    --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars
    --disable-background-networking --disable-component-update --disable-default-apps --disable-extensions
    --disable-sync --metrics-recording-only --remote-debugging-pipe
);

my $json = JSON::PP->new->utf8;

sub new ($class) {
    my $dir = tempdir('browser-XXXXXXXX', TMPDIR => 1, CLEANUP => 1);
    pipe my $its_in, my $to      or die "pipe: $!";
    pipe my $from,   my $its_out or die "pipe: $!";
    my $process = RateLimit::Process->run(sub {
        open STDOUT, '>',  "$dir/log" or die "log: $!";
        open STDERR, '>&', \*STDOUT   or die "dup: $!";
        local $ENV{HOME} = $dir;
        # The shell gives the ends of the pipes the numbers that Chromium takes: 3 to read, 4 to write.
        my ($in, $out) = map { fcntl $_, F_SETFD, 0; fileno $_ } $its_in, $its_out;
        exec '/bin/bash', '-c', "exec 3<&$in 4>&$out; exec chromium \"\$\@\"", 'chromium', @switches, "--user-data-dir=$dir/profile", 'about:blank';
    });
    close $_ for $its_in, $its_out;
    my $self = bless {
        dir => $dir, process => $process, to => $to, from => $from, input => '', id => 0, replies => {},
        errors => [], requests => [], session => undef, is_loaded => 0,
    }, $class;
    my ($target) = grep { $_->{type} eq 'page' } $self->call('Target.getTargets')->{targetInfos}->@*;
    $self->{session} = $self->call('Target.attachToTarget', targetId => $target->{targetId}, flatten => JSON::PP::true)->{sessionId};
    $self->call("$_.enable") for qw(Page Runtime Network Log);
    return $self;
}

# Commands to the page, once there is one. Dies where Chromium refuses.
sub call ($self, $method, %parameters) {
    my $id      = ++$self->{id};
    my $command = { id => $id, method => $method, params => \%parameters };
    $command->{sessionId} = $self->{session} if $self->{session};
    my $bytes = $json->encode($command) . "\0";
    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes) {
        my $sent = syswrite $self->{to}, $bytes;
        die "chromium: $!\n", $self->log if !defined $sent;
        substr $bytes, 0, $sent, '';
    }
    wait_until(sub { $self->receive; $self->{replies}{$id} }, 30) or die "chromium: no answer to $method\n", $self->log;
    my $reply = delete $self->{replies}{$id};
    die "chromium: $method: $reply->{error}{message}" if $reply->{error};
    return $reply->{result};
}

# Takes what has come.
sub receive ($self) {
    while (IO::Select->new($self->{from})->can_read(0)) {
        sysread($self->{from}, $self->{input}, 1 << 20, length $self->{input}) or die "chromium has ended\n", $self->log;
    }
    while ($self->{input} =~ s/^([^\0]*)\0//) {
        my $message = $json->decode($1);
        if ($message->{id}) { $self->{replies}{ $message->{id} } = $message }
        else                { $self->take_event($message->{method}, $message->{params}) }
    }
}

sub take_event ($self, $event, $details) {
    if    ($event eq 'Page.loadEventFired')       { $self->{is_loaded} = 1 }
    elsif ($event eq 'Network.requestWillBeSent') { push $self->{requests}->@*, $details->{request}{url} }
    elsif ($event eq 'Runtime.exceptionThrown') {
        my $thrown = $details->{exceptionDetails};
        push $self->{errors}->@*, $thrown->{exception}{description} // $thrown->{text};
    }
    elsif ($event eq 'Runtime.consoleAPICalled' && $details->{type} =~ /^(?:error|warning|assert)$/) {
        push $self->{errors}->@*, join ' ', map { $_->{value} // $_->{description} // '' } $details->{args}->@*;
    }
    elsif ($event eq 'Log.entryAdded' && $details->{entry}{level} =~ /^(?:error|warning)$/) {
        push $self->{errors}->@*, "$details->{entry}{text} $details->{entry}{url}";
    }
}

# Returns when the page is loaded.
sub open ($self, $url) {
    $self->{is_loaded} = 0;
    my $error = $self->call('Page.navigate', url => $url)->{errorText};
    die "chromium: $url: $error" if $error;
    wait_until(sub { $self->receive; $self->{is_loaded} }, 30) or die "chromium: $url is not loaded\n", $self->log;
}

# The value of an expression in the page, or of the promise that it is.
sub value ($self, $expression) {
    my $result = $self->call('Runtime.evaluate', expression => $expression, map { $_ => JSON::PP::true } qw(returnByValue awaitPromise));
    die "chromium: $expression: $result->{exceptionDetails}{exception}{description}" if $result->{exceptionDetails};
    return $result->{result}{value};
}

# The text of an element as it is seen, undef where there is none.
sub text ($self, $selector) { return $self->value("document.querySelector('$selector')?.innerText") }

# How the page is looked at: `scheme` is light or dark.
sub look ($self, $width, $height, $scheme) {
    my $is_phone = $width < 600 ? JSON::PP::true : JSON::PP::false;
    $self->call('Emulation.setDeviceMetricsOverride', width => $width, height => $height, deviceScaleFactor => 1, mobile => $is_phone);
    $self->call('Emulation.setEmulatedMedia', features => [ { name => 'prefers-color-scheme', value => $scheme } ]);
}

# The whole page as a PNG, or an element of it with a margin around it.
sub screenshot ($self, $path, $selector = 'html', $margin = 0) {
    my $place = $self->value("(({ x, y, width, height }) => ({ x: x + scrollX, y: y + scrollY, width, height }))(document.querySelector('$selector').getBoundingClientRect())");
    my %clip  = (x => $place->{x} - $margin, y => $place->{y} - $margin, width => $place->{width} + 2 * $margin, height => $place->{height} + 2 * $margin, scale => 1);
    my $image = $self->call('Page.captureScreenshot', format => 'png', captureBeyondViewport => JSON::PP::true, clip => \%clip);
    CORE::open(my $file, '>:raw', $path) or die "$path: $!";
    print {$file} decode_base64($image->{data});
    close $file or die "$path: $!";
}

sub DESTROY ($self) {
    return if !$self->{process};
    local ($@, $?);
    eval {
        $self->{session} = undef; # the command is to the browser
        $self->call('Browser.close');
    };
    $self->{process}->wait_for_end(10);
}

# What went wrong since the last call.
sub errors ($self) { $self->receive; return splice $self->{errors}->@* }

# The addresses of all that the page has asked for.
sub requests ($self) { $self->receive; return $self->{requests}->@* }

sub log ($self) {
    CORE::open(my $file, '<', "$self->{dir}/log") or return '';
    local $/;
    return <$file>;
}

1;
